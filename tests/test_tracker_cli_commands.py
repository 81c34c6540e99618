"""Which command lives where: the list of names says what the modules say, and a command loads no other command's module."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import breakeven

import tracker.cli
from tracker.cli.commands import COMMANDS, commands_of

NO_COMMANDS = {
    "__init__",
    "program",
    "commands",
    "session",
    "times",
    "values",
    "receipts",
    "backup",
    "alert_replay",
}  # helpers, and parts of groups


def names_in(module: str) -> list[str]:
    return [name for name, where in COMMANDS.items() if where == module]


@pytest.mark.parametrize("module", sorted(set(COMMANDS.values())))
def test_the_list_names_what_a_module_adds(module: str) -> None:
    assert list(commands_of(module)) == names_in(module)


def test_every_module_of_the_folder_is_in_the_list_or_known_to_have_no_commands() -> None:
    found = {path.stem for folder in tracker.cli.__path__ for path in Path(folder).glob("*.py")}
    assert found == NO_COMMANDS | set(COMMANDS.values())


def test_help_lists_every_command_with_its_first_words() -> None:
    told = breakeven("--help").text
    for name in COMMANDS:
        built = commands_of(COMMANDS[name])[name]
        assert f"{name} {' '.join(built.help.split()[:3])}" in told, name


def bracketed(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Every word in brackets of the help of a command and its parts, and how to ask for that help."""
    for told in (command, *command.params):
        yield from ((path, word) for word in re.findall(r"\[[a-z]+", getattr(told, "help", None) or ""))
    for name, part in getattr(command, "commands", {}).items():
        yield from bracketed(part, (*path, name))


def test_help_shows_what_is_in_brackets() -> None:
    found = [told for name, module in COMMANDS.items() for told in bracketed(commands_of(module)[name], (name,))]
    assert (("db", "prune"), "[retention") in found
    assert [told for told in found if told[1] not in breakeven(*told[0], "--help").text] == []


def test_a_slip_of_the_pen_is_answered_with_the_closest_of_all_commands() -> None:
    wrong = breakeven("quarantin")
    assert wrong.code == 2
    assert "Did you mean 'quarantine'?" in wrong.err


def loaded(code: str, *words: str) -> set[str]:
    """Modules that a new process has loaded when it has run the code."""
    told = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", told, *words], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(ran.stderr))


HELP = "from tracker.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"


def test_a_command_loads_no_other_and_no_scraper() -> None:
    found = loaded(HELP, "run", "--help")
    assert "tracker.cli.run" in found
    assert found & ({f"tracker.cli.{module}" for module in COMMANDS.values()} - {"tracker.cli.run"}) == set()
    assert {name for name in found if name.startswith("scrapers.")} == {"scrapers.contract"}


def test_help_of_all_loads_them_all() -> None:
    assert {f"tracker.cli.{module}" for module in COMMANDS.values()} <= loaded(HELP, "--help")


def test_a_start_loads_what_the_first_scrape_needs_and_nothing_else() -> None:
    found = loaded("import tracker.cli.run, tracker.cli.program")
    assert {"uvicorn", "sqlalchemy", "tracker.answers.recompute", "tracker.metrics.families"} <= found
    later = {"fastapi", "starlette", "jinja2", "apscheduler", "httpx", "tenacity", "rich", "prometheus_client"}  # by the daemon behind it
    seldom = {"alembic", "bs4", "apprise", "smtplib", "PIL", "pyarrow", "psycopg", "currency_converter"}
    rooms = {
        "tracker.service.daemon",
        "tracker.sweeps.collect",
        "tracker.sweeps.store",
        "tracker.book.bookstore",
        "tracker.web.app",
        "tracker.alerting.desk",
    }
    assert found & (later | seldom | rooms) == set()
