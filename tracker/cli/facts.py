"""``model add`` and ``model list``: the facts of models, one file each."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.models import ModelSpec
from engine.units import gb
from tracker.cli.session import Json, print_json, print_table, say, world
from tracker.cli.sizing import heading
from tracker.cli.values import context_label
from tracker.errors import BreakevenError, ConfigError
from tracker.facts.catalogue import load_catalogue
from tracker.facts.model_add import Given, new_model, write_model
from tracker.facts.models import missing_facts
from tracker.now import utc_now
from tracker.paths import user_config_dir
from tracker.plain import plain
from tracker.world import World

MAX_FILE_BYTES = 64 * 2**20  # a listing of thousands of shards is below 2 MB
Parameters = Annotated[int | None, typer.Option("--params", help="Total parameters, where neither file holds them.", min=1)]
Active = Annotated[int | None, typer.Option("--active", help="Parameters a token goes through, as the vendor states them.", min=1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A model that was written: where, and whether it stands in for a shipped one."""

    model: ModelSpec
    path: Path
    replaces: bool


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    models = typer.Typer(no_args_is_help=True, help="Facts of models.")
    models.command("add")(add)
    models.command("list")(list_models)
    app.add_typer(models, name="model")


def add(
    repository: Annotated[str, typer.Argument(help="Hugging Face repository, such as moonshotai/Kimi-K3.1-Pro.")],
    config_json: Annotated[Path, typer.Option("--config-json", help="The repository's config.json.")],
    files: Annotated[Path | None, typer.Option("--files", help="Its file listing: model info with sizes, or a safetensors index.")] = None,
    params: Parameters = None,
    active: Active = None,
    as_json: Json = False,
) -> None:
    """Write the facts of a model into the user's configuration, from its config.json."""
    before = world()
    given = Given(repository=repository, checked=utc_now().date(), params=params, params_active=active)
    done = add_model(before, user_config_dir(), given, _text(config_json), _text(files) if files else "")
    if as_json:
        print_json({"path": str(done.path), "replaces_shipped": done.replaces, **model_facts(done.model)})
        return
    say(f"{done.path}: written{', in place of the shipped file of that name' if done.replaces else ''}")
    say(heading(done.model))
    for field in missing_facts(done.model):
        say(f"not known: {field}")


def add_model(before: World, user_dir: Path, given: Given, config_json: str, listing_json: str) -> Added:
    """The model's file in the user's folder; taken back where the configuration would not be sound with it."""
    name, text = new_model(given, config_json, listing_json)
    path = write_model(user_dir, name, text)
    try:
        catalogue = load_catalogue(before.config.config_dir, user_dir)
    except ConfigError:
        path.unlink()
        raise
    return Added(model=catalogue.models[name], path=path, replaces=name in before.catalogue.models)


def _text(path: Path) -> str:
    """The file's text; BreakevenError where it is none or too large to be what is asked for."""
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise BreakevenError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB; expected a JSON file of facts, no weights")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BreakevenError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error


def list_models(as_json: Json = False) -> None:
    """Every model whose facts are known, and what is missing to size it."""
    models = world().catalogue.models
    if as_json:
        print_json([model_facts(model) for model in models.values()])
        return
    header = ("model", "organisation", "params B", "active B", "native", "window", "official GB", "not known")
    print_table(header, [_cells(model) for model in models.values()], numbers=(2, 3, 5, 6), title=f"{len(models)} models")


def _cells(model: ModelSpec) -> tuple[str, ...]:
    official = model.official_checkpoint
    return (
        model.id,
        model.organisation,
        _billions(model.params),
        _billions(model.params_active),
        model.native_format,
        "?" if model.context is None else context_label(model.context),
        "?" if official is None or official.size_bytes is None else f"{gb(official.size_bytes):,.1f}",
        ", ".join(missing_facts(model)),
    )


def _billions(params: int | None) -> str:
    return "?" if params is None else f"{Decimal(params) / 10**9:,.1f}"


def model_facts(model: ModelSpec) -> dict[str, Any]:
    """The facts of a model that a list shows, as JSON values."""
    names = ("id", "name", "organisation", "params", "params_active", "native_format", "context", "modalities", "source", "checked")
    official = model.official_checkpoint
    return {name: plain(getattr(model, name)) for name in names} | {
        "official_bytes": None if official is None else official.size_bytes,
        "licence": plain(model.licence),
        "missing": list(missing_facts(model)),
    }
