"""What follows from files and code alone, kept in the data directory from one start to the next: facts, and the setups that can win.

It is read back only where the folder and the file are this account's own and nobody else may write to them, where the file is whole,
and where it was made of the same facts by the same code; else, and where anything is wrong with it, it is worked out again. Of these
only the first is somebody's to mend, and is said.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from tracker.facts.values import Facts

log = logging.getLogger("breakeven.kept")

Value = TypeVar("Value")
Ways = dict[Any, Any]  # as a Sizer has them

HERE = Path(__file__).resolve().parent
CODE = ("engine", "tracker/facts", "tracker/kept.py", "tracker/config.py", "tracker/strict.py")  # what facts and fits are worked out by
FACTS = ("*.toml", "instances.csv", "models/*.toml", "throughput/*.csv")  # and of
ROOMS = ("engine.", "tracker.facts.values")  # whose dataclasses are kept; of others none is made, whatever a file says
PLAIN = {("decimal", "Decimal"), ("datetime", "date")}
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
UNREADABLE = (pickle.UnpicklingError, AttributeError, EOFError, ImportError, IndexError, KeyError, TypeError, ValueError)


class Kept:
    """One folder of kept values. Nothing of it is needed, and no fault of it keeps the program from its work."""

    def __init__(self, folder: Path, config_dir: Path, user_dir: Path | None) -> None:
        self._folder = folder
        self._made_of = (config_dir, user_dir)
        self._key = digest_of(config_dir, user_dir)
        self._had: dict[str, Any] = {}
        self._told = False

    def facts(self) -> Facts | None:
        """The facts, where they are kept."""
        self._had["facts"] = found = self._take("facts", Facts)
        return found

    def ways(self) -> Ways:
        """What can win, by question; empty where it is not kept."""
        self._had["ways"] = found = self._take("ways", dict) or {}
        return dict(found)

    def keep(self, facts: Facts, ways: Ways) -> None:
        """Keep them for the next start; where the files have changed since they were read, nothing."""
        new: dict[str, Any] = {"facts": facts} if self._had.get("facts") is None else {}
        ways = dict(ways)  # somebody may be asking for more
        new |= {"ways": ways} if self._had.get("ways", {}).keys() != ways.keys() else {}
        if new and digest_of(*self._made_of) == self._key:
            with suppress(OSError):
                self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                for left in self._folder.glob(".*-*"):  # by a start that was killed while it wrote
                    left.unlink(missing_ok=True)
                for name, value in new.items():
                    self._put(name, value)

    def _take(self, name: str, kind: type[Value]) -> Value | None:
        path = self._folder / name
        try:
            if fault := _fault(self._folder, stat.S_ISDIR) or _fault(path, stat.S_ISREG):
                self._tell(fault)
                return None
            key, whole, body = path.read_bytes().split(b"\n", 2)
        except (OSError, ValueError):
            return None
        if key.decode("ascii", "replace") != self._key or whole.decode("ascii", "replace") != hashlib.sha256(body).hexdigest():
            return None
        try:
            found = _Reader(io.BytesIO(body)).load()
        except UNREADABLE:
            return None
        return found if isinstance(found, kind) else None

    def _tell(self, fault: str) -> None:
        """Once: the program works, and each of its starts takes longer than it must."""
        if not self._told:
            log.warning("what was kept is not used, and worked out again at every start: %s; take it away, and it is made anew", fault)
            self._told = True

    def _put(self, name: str, value: Any) -> None:
        """Written aside and put in place whole."""
        body = pickle.dumps(value, protocol=5)
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix=f".{name}-", delete=False) as file:
            try:
                file.write(f"{self._key}\n{hashlib.sha256(body).hexdigest()}\n".encode() + body)
                file.close()
                os.replace(file.name, self._folder / name)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise


class _Reader(pickle.Unpickler):
    """Makes values of our own dataclasses and plain ones; calls nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name) if (module, name) in PLAIN or module.startswith(ROOMS) else None
        if (module, name) not in PLAIN and not (isinstance(found, type) and is_dataclass(found)):
            raise pickle.UnpicklingError(f"{module}.{name} is none of the values that are kept")
        return found


def _fault(path: Path, kind: Callable[[int], bool]) -> str:
    """Why it is not trusted; empty where it is of that kind, this account's own, and nobody else's to write."""
    found = path.lstat()
    if not kind(found.st_mode):
        return f"{path} is a link, or no {'folder' if kind is stat.S_ISDIR else 'file'}"
    if found.st_uid != os.geteuid():
        return f"{path} belongs to another account"
    return f"{path} may be written by others (mode {stat.S_IMODE(found.st_mode):o})" if found.st_mode & OTHERS_WRITE else ""


def digest_of(config_dir: Path, user_dir: Path | None) -> str:
    """Hash of the code and the files that facts and fits are worked out from, and of the Python that runs it."""
    digest = hashlib.sha256(sys.version.encode())
    folders = [HERE.parent / name for name in CODE]
    code = [path for found in folders for path in ([found] if found.suffix else sorted(found.glob("*.py")))]
    facts = [path for folder in (config_dir, user_dir) if folder for pattern in FACTS for path in sorted(folder.glob(pattern))]
    for path in _readable([*code, *facts]):
        body = path.read_bytes()
        digest.update(f"{path}\0{len(body)}\0".encode() + body)
    return digest.hexdigest()


def _readable(paths: Iterable[Path]) -> Iterable[Path]:
    return (path for path in paths if path.is_file())
