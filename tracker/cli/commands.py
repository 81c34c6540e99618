"""Which module holds which command: one is imported when it is asked for, all of them for a list of all."""

from __future__ import annotations

import importlib
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

# In the order of --help. A module says what its commands are (``add_to``); a test holds both equal.
COMMANDS = {
    "run": "run",
    "collect": "collecting",
    "sources": "collecting",
    "check": "collecting",
    "cheapest": "answers",
    "breakeven": "answers",
    "offers": "answers",
    "rates": "answers",
    "size": "sizing",
    "compare": "comparing",
    "download-time": "downloads",
    "offload": "own_machine",
    "plan": "plans",
    "bill": "bills",
    "changes": "history",
    "history": "history",
    "report": "finance",
    "budget": "budgets",
    "health": "health",
    "rederive": "rederive",
    "model": "facts",
    "import": "book",
    "db": "db",
    "export": "exports",
    "quarantine": "quarantine",
    "alerts": "alerts",
}


class Commands(TyperGroup):
    """The commands, each built when it is first asked for: a daemon pays for no other command."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every name."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; None where there is none, and then all are known, so that the closest can be suggested."""
        for module in [COMMANDS[cmd_name]] if cmd_name in COMMANDS else dict.fromkeys(COMMANDS.values()):
            if module not in self._loaded:
                self.commands.update(commands_of(module))
                self._loaded.add(module)
        return self.commands.get(cmd_name)

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._loaded: set[str] = set()


def commands_of(module: str) -> dict[str, Any]:
    """The commands that a module of this folder adds, by name."""
    own = typer.Typer(pretty_exceptions_enable=False)
    importlib.import_module(f"tracker.cli.{module}").add_to(own)
    found = dict(get_group(own).commands)
    for command in found.values():
        _literally(command)
    return found


def _literally(command: Any) -> None:
    """Have its help printed as it is written: a table of the configuration in brackets would be read as markup, and left out."""
    for told in (command, *command.params):
        if getattr(told, "help", None):
            told.help = told.help.replace("[", r"\[")
    for part in getattr(command, "commands", {}).values():
        _literally(part)
