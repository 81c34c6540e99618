"""Writes the file of a new model from a Hugging Face config.json and, where given, the repository's file listing."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from engine.facts import MissingFact
from engine.models import LayerGroup
from engine.params import ParamParts, params_from_config
from tracker.errors import ConfigError
from tracker.facts.model_formats import DTYPES, native_format
from tracker.facts.model_layers import Config, layer_groups, need, optional, table, text_config
from tracker.facts.model_schema import ModelTable
from tracker.facts.models import MODEL_ID, model_spec
from tracker.facts.toml import validated

REPOSITORY = re.compile(r"[A-Za-z0-9._-]+/[A-Za-z0-9._-]+")
WEIGHT_FILES = (".safetensors", ".gguf", ".bin")
SHAPE = {
    "attention_heads": "num_attention_heads",
    "hidden_size": "hidden_size",
    "vocab_size": "vocab_size",
    "context": "max_position_embeddings",
}
MIXTURE = {"experts_per_token": "num_experts_per_tok", "shared_experts": "n_shared_experts", "dense_layers": "first_k_dense_replace"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What was handed over: where it comes from, when it was read, and figures the config does not hold."""

    repository: str  # moonshotai/Kimi-K3.1-Pro
    checked: date
    params: int | None = None
    params_active: int | None = None


def model_id(repository: str) -> str:
    """The id (and file name) of a repository's model: the last part, in lower case."""
    name = repository.rpartition("/")[2].lower().replace("_", "-")
    if not REPOSITORY.fullmatch(repository) or not MODEL_ID.fullmatch(name):
        raise ConfigError(f"{repository!r} is no repository: expected organisation/Model-Name, letters, digits, dots, dashes, underscores")
    return name


def new_model(given: Given, config_json: str, listing_json: str = "") -> tuple[str, str]:
    """Id and TOML text of the model; ConfigError names the field that is absent or not understood. The text is checked as if loaded."""
    name = model_id(given.repository)
    config = text_config(_object(config_json, "config.json"))
    text = "\n".join(_lines(given, config, _listing(listing_json)))
    path = Path(f"{name}.toml")
    model_spec(name, validated(ModelTable, tomllib.loads(text, parse_float=Decimal), path), path)
    return name, text


def write_model(user_dir: Path, name: str, text: str) -> Path:
    """The new file in the user's configuration; ConfigError where there is one already."""
    path = user_dir / "models" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path}: is there already; edit it, or remove it first") from error
    return path


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{what}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{what}: expected an object, found {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What the repository's listing says: bytes of its weight files and parameters by type; None and empty are unknown."""

    size_bytes: int | None = None
    parameters: Mapping[str, int]


def _listing(text: str) -> Listing:
    """Model info (``siblings`` with sizes, ``safetensors.parameters``), or a safetensors index (``metadata.total_size``)."""
    if not text:
        return Listing(parameters={})
    info = _object(text, "file listing")
    files = info.get("siblings") or ()
    if not isinstance(files, list | tuple) or not all(isinstance(one, dict) for one in files):
        raise ConfigError("file listing: siblings must be a list of files")
    weights = [one for one in files if str(one.get("rfilename", "")).endswith(WEIGHT_FILES)]
    known = weights and all(isinstance(one.get("size"), int) for one in weights)
    counts = table(table(info, "safetensors"), "parameters")
    return Listing(
        size_bytes=sum(need(one, "size") for one in weights) if known else optional(table(info, "metadata"), "total_size"),
        parameters={dtype: need(counts, dtype) for dtype in counts},
    )


def _lines(given: Given, config: Config, listing: Listing) -> Iterator[str]:
    groups, without = layer_groups(config)
    form = native_format(config)
    yield f"name = {_quoted(given.repository.rpartition('/')[2].replace('-', ' '))}"
    yield f"organisation = {_quoted(given.repository.partition('/')[0])}"
    yield f"native_format = {_quoted(form)}"
    yield from _shape(config, without)
    yield f"source = {_quoted(f'config.json of {given.repository}')}"
    yield f"checked = {given.checked}"
    yield ""
    yield from _params(given, config, listing, form)
    for group in groups:
        yield from ("", "[[layer_groups]]", *_group(group))
    if listing.size_bytes:
        yield from ("", "[[checkpoints]]", f"name = {_quoted(given.repository)}", 'kind = "official"', f"weight_format = {_quoted(form)}")
        yield from (f"size_bytes = {listing.size_bytes:_}", f"source = {_quoted(f'file listing of {given.repository}')}")
    yield from ("", "[aliases]", f"huggingface = [{_quoted(given.repository)}]", "")


def _experts(config: Config) -> int | None:
    return next((found for key in ("num_experts", "n_routed_experts", "num_local_experts") if (found := optional(config, key))), None)


def _shape(config: Config, without: int) -> Iterator[str]:
    fields: dict[str, int | None] = {"layers": need(config, "num_hidden_layers"), "cacheless_layers": without}
    fields |= {ours: optional(config, theirs) for ours, theirs in SHAPE.items()}
    if experts := _experts(config):
        inner = optional(config, "moe_intermediate_size") or optional(config, "intermediate_size")
        fields |= {"experts": experts, "moe_intermediate": inner} | {ours: optional(config, theirs) for ours, theirs in MIXTURE.items()}
        fields["shared_experts"] = fields["shared_experts"] or (1 if optional(config, "shared_expert_intermediate_size") else None)
    yield from (f"{key} = {value:_}" for key, value in fields.items() if value)
    if config.get("tie_word_embeddings") is True:
        yield "tied_embeddings = true"


def _group(group: LayerGroup) -> Iterator[str]:
    yield f"count = {group.count}"
    yield f"kind = {_quoted(group.kind)}"
    for key in ("kv_heads", "k_dim", "v_dim", "window", "index_dim", "index_scale_bytes", "state_bytes"):
        if value := getattr(group, key):
            yield f"{key} = {value:_}"


def _params(given: Given, config: Config, listing: Listing, form: str) -> Iterator[str]:
    """Totals: as given, else counted by the listing, else recomputed from the config."""
    parts = _parts(config)
    listed = sum(listing.parameters.values())
    if not (given.params or listed or parts):
        raise ConfigError(f"config.json: parameters of a {config.get('model_type')!r} model cannot be counted from model_type: give params")
    stated = [
        (given.params, "vendor", "given by hand"),
        (listed, "files", f"safetensors metadata of {given.repository}"),
        (parts.total if parts else None, "derived", "counted from the fields of config.json"),
    ]
    yield from ("params = [", *(f"    {_fact(count, basis, source)}," for count, basis, source in stated if count), "]")
    active = given.params_active or (_active(parts, config) if parts else None)
    if active:
        yield "params_active = " + (
            _fact(active, "vendor", "given by hand") if given.params_active else _fact(active, "derived", "counted from config.json")
        )
    narrow = form not in DTYPES.values()
    sixteen = sum(count for dtype, count in listing.parameters.items() if dtype in ("BF16", "F16", "F32"))
    if narrow and sixteen:
        yield "params_16bit = " + _fact(sixteen, "files", f"safetensors metadata of {given.repository}")


def _parts(config: Config) -> ParamParts | None:
    try:
        return params_from_config(config)
    except MissingFact:
        return None
    except ValueError as error:
        raise ConfigError(f"config.json: a field is no whole number ({error})") from error


def _active(parts: ParamParts, config: Config) -> int:
    """Parameters a token goes through: everything but the routed experts it is not sent to."""
    used = optional(config, "num_experts_per_tok") or 1
    return parts.total - parts.experts + parts.experts * used // (_experts(config) or 1)


def _fact(value: int, basis: str, source: str) -> str:
    return f"{{ value = {value:_}, basis = {_quoted(basis)}, source = {_quoted(source)} }}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
