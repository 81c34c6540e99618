"""Models: figures and their conflicts, layer groups against what vendors and recipes print, and exact spellings."""

from __future__ import annotations

import csv
import json
import tomllib
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from engine.cache import cache_bytes
from engine.facts import spread
from engine.models import LayerGroup, ModelSpec
from engine.params import params_from_config
from engine.policies import STUDIOTV
from engine.sizing import Need, smallest_fit
from tracker.facts.catalogue import Catalogue, load_catalogue
from tracker.facts.models import missing_facts

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "config"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(CONFIG)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- every file ---------------------------------------------------------------------------------------------------------


def test_ids_are_file_names(catalogue: Catalogue) -> None:
    assert {path.stem for path in (CONFIG / "models").iterdir()} == set(catalogue.models)
    assert all(name == model.id for name, model in catalogue.models.items())
    assert {path.suffix for path in (CONFIG / "models").iterdir()} == {".toml"}


def test_every_fact_has_source_and_date(catalogue: Catalogue) -> None:
    for model in catalogue.models.values():
        assert model.source and model.checked == date(2026, 11, 29)
        assert all(fact.source and fact.checked for fact in model.facts)
        assert all(one.source and one.checked for one in (*model.checkpoints, *model.recorded_capacity))
        assert model.licence is None or model.licence.source


def test_a_licence_nobody_read_says_so(catalogue: Catalogue) -> None:
    licences = {model.id: model.licence for model in catalogue.models.values() if model.licence}
    # The clause of these two was read as quoted word for word; what a page says about a licence verifies nothing.
    assert {name for name, licence in licences.items() if licence.verified} == {"kimi-k2-instruct", "kimi-k2.5"}
    told = {"kimi-k3.1-pro", "muse-spark-open", "minimax-m2.7"}
    unread = {name: licence.source for name, licence in licences.items() if not licence.verified}
    assert {name for name, source in unread.items() if not source.startswith("general knowledge")} == told
    assert all(licences[name].conditions for name in told)


def test_what_is_from_memory_says_so(catalogue: Catalogue) -> None:
    remembered = {m.id for m in catalogue.models.values() if any(f.basis == "memory" for f in m.facts if f.field == "params")}
    assert remembered == {
        *("qwen3-next-80b-a3b-instruct", "glm-4.5-air", "mistral-small-3.2-24b-instruct-2506", "gemma-3-27b-it", "phi-4"),
        "kimi-linear-48b-a3b-instruct",
    }
    for name in remembered:
        groups = [fact for fact in catalogue.models[name].facts if fact.field.startswith("layer_groups.")]
        assert groups and {fact.basis for fact in groups} == {"memory"}


@pytest.mark.shared
def test_the_54_models_are_there(shared: Path, catalogue: Catalogue) -> None:
    handed = rows_of(shared / "facts/models.csv")
    assert len(handed) == 54
    for row in handed:
        alias = catalogue.model_for("huggingface", "huggingface", _repository(row["model_id"]))
        assert alias is not None, row["model_id"]
        model = catalogue.models[alias.model]
        assert model.params == int(float(row["total_params"]))
        assert model.params_active == int(float(row["active_params"]))
        assert model.layers == (int(row["layers"]) if row["layers"] else None)
        assert model.context == int(row["context"])


def _repository(model_id: str) -> str:
    # The repository's own name as the providers print it; the list shortens it.
    return {"meta-models/Muse-Spark-Open": "meta-models/Muse-Spark-Open-816B-A42B"}.get(model_id, model_id)


@pytest.mark.shared
def test_layer_groups_give_the_printed_cache(shared: Path, catalogue: Catalogue) -> None:
    """Bytes a token, of full windows and of state in 16 bit, added up here without the engine."""
    compared = 0
    for row in rows_of(shared / "facts/models.csv"):
        alias = catalogue.model_for("huggingface", "huggingface", _repository(row["model_id"]))
        assert alias is not None
        model = catalogue.models[alias.model]
        if not model.layer_groups or not row["kv_bytes_per_token_16bit"]:
            continue
        growing, windows, state = _sizes(model.layer_groups)
        printed = int(row["kv_bytes_per_token_16bit"])
        assert growing == printed, model.id
        assert windows == int(row["kv_fixed_bytes_16bit"] or 0), model.id
        assert not row["state_bytes_per_seq"] or state == int(row["state_bytes_per_seq"]), model.id
        compared += 1
    assert compared == 48


def _sizes(groups: tuple[LayerGroup, ...]) -> tuple[int, int, int]:
    growing = windows = state = 0
    for group in groups:
        heads = group.kv_heads if group.kind == "gqa" else 1
        width = heads * (group.k_dim + group.v_dim) * 2 + group.index_dim + group.index_scale_bytes
        if group.window:
            windows += group.count * group.window * width
        elif group.kind != "linear":
            growing += group.count * width
        state += group.count * group.state_bytes
    return growing, windows, state


@pytest.mark.shared
def test_every_public_config_leads_to_a_model(shared: Path, catalogue: Catalogue) -> None:
    """113 rows; 23 are empty companions (_hf_quant) and one is a calibration variant of Qwen3-32B."""
    rows = [row for row in rows_of(shared / "facts/model_configs.csv") if row["model_type"]]
    # Base models whose instruct version is the one that is served.
    base = {
        "meta-llama/Meta-Llama-3.1-8B": "llama-3.1-8b-instruct",
        "meta-llama/Meta-Llama-3.1-70B": "llama-3.1-70b-instruct",
        "meta-llama/Meta-Llama-3.1-405B": "llama-3.1-405b-instruct",
        "mistralai/Mixtral-8x7B-v0.1": "mixtral-8x7b-instruct-v0.1",
        "mistralai/Mixtral-8x22B-v0.1": "mixtral-8x22b-instruct-v0.1",
        "google/gemma-4-26B-A4B": "gemma-4-26b-a4b-it",
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1": "llama-3.3-nemotron-super-49b-v1",
        "Qwen/Qwen3-32B-FP8-Static-PerTensor": "qwen3-32b",
    }
    for row in rows:
        alias = catalogue.model_for("huggingface", "huggingface", row["model"])
        model = catalogue.models[alias.model if alias else base[row["model"]]]
        if row["num_hidden_layers"]:
            assert model.layers == int(row["num_hidden_layers"]), row["model"]
        assert model.hidden_size == int(row["hidden_size"]), row["model"]


# Totals as vendors print them or count them, in 10**9; the config's fields must give them again.
PRINTED = [
    ("meta-llama/Meta-Llama-3.1-8B", "8.03"),
    ("meta-llama/Meta-Llama-3.1-70B", "70.55"),
    ("meta-llama/Meta-Llama-3.1-405B", "405.85"),
    ("Qwen/Qwen3-32B", "32.76"),
    ("Qwen/Qwen3-30B-A3B", "30.53"),
    ("Qwen/Qwen3-235B-A22B", "235.09"),
    ("Qwen/Qwen3-Coder-480B-A35B-Instruct", "480.15"),
    ("deepseek-ai/DeepSeek-V3", "671.03"),
    ("moonshotai/Kimi-K2-Instruct", "1026.41"),
    ("MiniMaxAI/MiniMax-M2.5", "228.69"),
    ("openai/gpt-oss-120b", "116.83"),
    ("openai/gpt-oss-20b", "20.91"),
    ("zai-org/GLM-5", "743.91"),
    ("mistralai/Mixtral-8x7B-v0.1", "46.70"),
]


@pytest.mark.shared
@pytest.mark.parametrize(("repository", "printed"), PRINTED)
def test_params_from_config_gives_the_printed_total(repository: str, printed: str, shared: Path) -> None:
    row = next(row for row in rows_of(shared / "facts/model_configs.csv") if row["model"] == repository)
    config = row | {"tie_word_embeddings": row["tie_word_embeddings"] == "True"}
    assert round(Decimal(params_from_config(config).total) / 10**9, 2) == Decimal(printed)


# --- the two models the project starts from -----------------------------------------------------------------------------


def values(model: ModelSpec, field: str) -> dict[str, set[Decimal]]:
    """Every stated value of a field by basis."""
    by_basis: dict[str, set[Decimal]] = {}
    for fact in spread(model.facts, field):
        by_basis.setdefault(fact.basis, set()).add(fact.value)
    return by_basis


def test_kimi_keeps_its_conflicting_figures_side_by_side(catalogue: Catalogue) -> None:
    kimi = catalogue.models["kimi-k3.1-pro"]
    assert kimi.params == 2_780_110_363_392  # the files
    assert values(kimi, "params") == {
        "files": {Decimal(2_780_110_363_392)},
        "vendor": {Decimal(2_800 * 10**9)},
        "rounded": {Decimal(2_800 * 10**9)},
    }
    assert values(kimi, "weights_gb") == {
        "files": {Decimal("1561.293160568")},
        "idealised": {Decimal("1487.5")},
        "overhead": {Decimal("1749.1"), Decimal(1874), Decimal(2000)},
    }
    assert {str(value) for found in values(kimi, "kv_1m_gb").values() for value in found} == {"18.27", "51.5"}


def test_muse_keeps_its_conflicting_figures_side_by_side(catalogue: Catalogue) -> None:
    muse = catalogue.models["muse-spark-open"]
    assert muse.params == 822_030_000_000  # config.json beats the 816B of the name and the rounded 820B
    assert values(muse, "params") == {
        "config": {Decimal(822_030_000_000)},
        "vendor": {Decimal(816 * 10**9)},
        "rounded": {Decimal(820 * 10**9)},
    }
    assert values(muse, "weights_gb") == {
        "files": {Decimal(533)},
        "idealised": {Decimal(408), Decimal("433.5")},
        "derived": {Decimal(495)},
        "overhead": {Decimal("560.3"), Decimal("598.0")},
    }


def test_kimi_cache_of_devtoollab(catalogue: Catalogue) -> None:
    mla, kda = catalogue.models["kimi-k3.1-pro"].layer_groups
    # FP8 latent of 576 bytes, an FP8 indexer key of 128, an FP32 scale: 16,992 bytes a token
    assert mla.count * (mla.k_dim + mla.v_dim + mla.index_dim + mla.index_scale_bytes) == 16_992
    assert kda.count * kda.state_bytes == 449_372_160  # 449.4 MB a sequence


def test_muse_cache_of_studiotv(catalogue: Catalogue) -> None:
    full, windowed = catalogue.models["muse-spark-open"].layer_groups
    assert (full.count, windowed.count, windowed.window) == (16, 46, 2_048)
    tokens = 32_768
    cached = (full.count * tokens + windowed.count * 2_048) * full.kv_heads * (full.k_dim + full.v_dim) * 2
    assert round(Decimal(cached) / 2**30, 2) == Decimal("2.36")  # GiB at 32K, BF16


def test_dates_are_kept_by_kind(catalogue: Catalogue) -> None:
    assert catalogue.models["kimi-k3.1-pro"].dates == {
        "api": date(2026, 10, 23),
        "weights_uploaded": date(2026, 11, 2),
        "weights": date(2026, 11, 4),
    }
    assert catalogue.models["muse-spark-open"].dates["announced"] == date(2026, 10, 15)


def test_benchmarks_say_who_measured(catalogue: Catalogue) -> None:
    assert catalogue.models["kimi-k3.1-pro"].benchmarks["GPQA Diamond"].startswith("94.2 (Moonshot AI;")
    assert catalogue.models["muse-spark-open"].benchmarks["GPQA Diamond"].startswith("89.0 (Meta;")


def test_pruned_and_community_builds_are_never_the_default(catalogue: Catalogue) -> None:
    kimi = catalogue.models["kimi-k3.1-pro"]
    official = kimi.official_checkpoint
    assert official is not None and (official.size_bytes, official.engine_min_version) == (1_561_293_160_568, "0.34.0")
    sizes = {c.size_bytes: c.kind for c in kimi.checkpoints if c.size_bytes}
    assert {size: sizes[size] for size in (1_009_300_000_000, 321_900_000_000, 336_000_000_000, 350_000_000_000)} == {
        1_009_300_000_000: "community",
        321_900_000_000: "pruned",
        336_000_000_000: "pruned",
        350_000_000_000: "pruned",
    }
    pruned = next(c for c in kimi.checkpoints if c.name == "vllm-project pruned")
    assert "43.7" in pruned.quality and "96.2" in pruned.quality
    assert all(m.official_checkpoint is None or m.official_checkpoint.kind == "official" for m in catalogue.models.values())


def test_recorded_capacities_of_the_recipe(catalogue: Catalogue) -> None:
    found = {(c.gpu, c.gpu_count, c.cache_format, c.dcp): c.tokens for c in catalogue.models["kimi-k3.1-pro"].recorded_capacity}
    assert found == {("nvidia-b300-sxm-288", 8, "fp8", 1): 2_600_000, ("nvidia-b300-sxm-288", 8, "fp8", 8): 18_500_000}


# --- what cannot be sized -----------------------------------------------------------------------------------------------

CACHE = "layer_groups (or a measured kv_bytes_per_token)"
UNSIZED = {
    "deepseek-v4-flash": (CACHE,),  # tokens compressed by layer
    "deepseek-v4-pro": (CACHE,),
    "llama-3.3-nemotron-super-49b-v1": (CACHE,),  # layers of different widths
    "mistral-medium-3.5-128b": ("layers", CACHE),
    "muse-glimmer-30b": (CACHE,),
    "nemotron-h-56b-base-8k": (CACHE,),  # Mamba2 state not known
    "nvidia-nemotron-3-nano-30b-a3b-bf16": (CACHE,),
    "nvidia-nemotron-3-super-120b-a12b-bf16": (CACHE,),
    "nvidia-nemotron-3-ultra-550b-a55b-bf16": ("layers", CACHE),
    "nvidia-nemotron-3.5-lightning-30b-a3b": (CACHE,),
    "qwen3.8-2.4t-a95b": ("layers", CACHE, "experts", "experts_per_token"),
    "gemma-4-26b-a4b-it": ("experts_per_token",),  # sized, not timed
    "mistral-large-3-675b-instruct-2512": ("experts", "experts_per_token"),
}


def test_a_model_that_cannot_be_sized_says_what_is_missing(catalogue: Catalogue) -> None:
    assert {m.id: missing_facts(m) for m in catalogue.models.values() if missing_facts(m)} == UNSIZED


def test_a_measured_cache_makes_a_model_sizable(tmp_path: Path) -> None:
    """DeepSeek V4 compresses layer by layer: no layer group says it, a measured size does."""
    text = (CONFIG / "models" / "deepseek-v4-pro.toml").read_text()
    measured = 'kv_bytes_per_token = { value = 5_000, basis = "measured", source = "our server, 8K sessions" }\n'
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "deepseek-v4-pro.toml").write_text(text.replace("\nparams = ", f"\n{measured}params = ", 1))
    known = load_catalogue(CONFIG, tmp_path)
    model = known.models["deepseek-v4-pro"]
    assert missing_facts(model) == ()
    assert cache_bytes(model, 8192, "fp8") == 8192 * 5_000
    found = smallest_fit(model, known.gpus["nvidia-b300-sxm-288"], known.formats["nvfp4"], need=Need(), policy=STUDIOTV)
    assert (found.fits, found.cache_bytes, found.gpu_count) == (True, 8192 * 5_000, 4)


# --- spellings ----------------------------------------------------------------------------------------------------------

SPELLINGS = [
    ("genai_prices", "moonshotai", "kimi-k3.1-pro", "kimi-k3.1-pro", None, ""),
    ("genai_prices", "moonshotai", "kimi-k3.1-pro-highspeed", "kimi-k3.1-pro", "highspeed", ""),
    ("genai_prices", "fireworks", "kimi-k3p1-pro", "kimi-k3.1-pro", None, ""),
    ("genai_prices", "aws", "global.moonshotai.kimi-k3.1", "kimi-k3.1-pro", "highspeed", "global"),
    ("litellm", "bedrock_converse", "moonshotai.kimi-k3.1", "kimi-k3.1-pro", "highspeed", "regional"),  # Bedrock serves the fast one
    ("litellm", "bedrock_converse", "in.moonshotai.kimi-k3.1", "kimi-k3.1-pro", "highspeed", "in"),
    ("litellm", "databricks", "databricks/databricks-kimi-k3-1-pro", "kimi-k3.1-pro", None, ""),
    ("openrouter", "openrouter", "moonshotai/kimi-k3:batch", "kimi-k3", "batch", ""),
    ("genai_prices", "fireworks", "kimi-k3-us", "kimi-k3", None, "us"),
    ("genai_prices", "modal", "meta-models/Muse-Spark-Open-816B-A42B", "muse-spark-open", None, ""),
    ("litellm", "aiand", "aiand/meta/muse-spark-open", "muse-spark-open", None, ""),
]


@pytest.mark.parametrize(("source", "provider", "spelling", "model", "sku", "region"), SPELLINGS)
def test_a_spelling_means_one_model(
    source: str, provider: str, spelling: str, model: str, sku: str | None, region: str, catalogue: Catalogue
) -> None:
    alias = catalogue.model_for(source, provider, spelling)
    assert alias is not None
    assert (alias.model, alias.sku, alias.region) == (model, sku, region)


@pytest.mark.parametrize(
    ("source", "provider", "spelling"),
    [
        ("genai_prices", "moonshotai", "kimi-k3.1"),
        ("genai_prices", "moonshotai", "Kimi-K3.1-Pro"),
        ("genai_prices", "moonshotai", "kimi-k3.1-pro "),
        ("genai_prices", "moonshotai", "kimi-latest"),
        ("genai_prices", "unheard-of", "kimi-k3.1-pro"),
        ("openrouter", "openrouter", "muse-spark-1.5"),  # closed models of the same name
        ("openrouter", "openrouter", "~moonshotai/kimi-latest"),
    ],
)
def test_no_spelling_is_guessed(source: str, provider: str, spelling: str, catalogue: Catalogue) -> None:
    assert catalogue.model_for(source, provider, spelling) is None


@pytest.mark.shared
def test_all_known_spellings_of_the_kimis_and_muse_resolve(shared: Path, catalogue: Catalogue) -> None:
    known = json.loads((shared / "recorded/tokens/misc/identities.kimi-k3_k3.1_muse.json").read_text(encoding="utf-8"))
    assert {model: len(rows) for model, rows in known.items()} == {"kimi-k3.1-pro": 28, "kimi-k3": 56, "muse-spark-open": 13}
    for model, rows in known.items():
        for read_from, provider, spelling in rows:
            source = {"genai-prices": "genai_prices", "litellm": "litellm"}[read_from.split()[0]]
            alias = catalogue.model_for(source, provider, spelling)
            assert alias is not None and alias.model == model, (provider, spelling)


def test_every_alias_is_listed_once_in_a_file() -> None:
    for path in (CONFIG / "models").glob("*.toml"):
        aliases = tomllib.loads(path.read_text(encoding="utf-8"))["aliases"]
        for provider, spellings in aliases.items():
            ids = [one if isinstance(one, str) else one["id"] for one in spellings]
            assert len(ids) == len(set(ids)), (path.name, provider)
