"""The weight format a Hugging Face config.json says its weights are stored in."""

from __future__ import annotations

from collections.abc import Mapping

from tracker.errors import ConfigError
from tracker.facts.model_layers import Config, table

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
QUANT_METHODS = {"fp8": "fp8", "mxfp4": "mxfp4", "awq": "awq", "gptq": "gptq", "nvfp4": "nvfp4"}
PACKED = {"nvfp4-pack-quantized": "nvfp4", "mxfp4-pack-quantized": "mxfp4", "pack-quantized": "int4", "float-quantized": "fp8"}


def native_format(config: Config) -> str:
    """The id of the format the weights are stored in; ConfigError names the field that does not say it."""
    quantization = table(config, "quantization_config")
    if not quantization:
        dtype = str(config.get("torch_dtype") or config.get("dtype"))
        return _known(DTYPES, dtype, "torch_dtype")
    method = str(quantization.get("quant_method"))
    if method == "compressed-tensors":
        return _known(PACKED, str(quantization.get("format")), "quantization_config.format")
    if method == "modelopt":
        return _known(QUANT_METHODS, str(quantization.get("quant_algo")).lower(), "quantization_config.quant_algo")
    return _known(QUANT_METHODS, method, "quantization_config.quant_method")


def _known(table: Mapping[str, str], value: str, key: str) -> str:
    if value not in table:
        raise ConfigError(f"config.json: {key} is {value!r}, known are {', '.join(table)}")
    return table[value]
