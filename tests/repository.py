"""The files of this repository, for tests that look at them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE_HERE = {".git", ".venv", "build", "dist", "__pycache__"}


def files() -> dict[str, Path]:
    """Every file that is or would be committed, by its path in the repository."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split("\0")
    names = [name for name in listed if name] or _walk()
    return {name: ROOT / name for name in names if (ROOT / name).is_file()}


def _walk() -> list[str]:
    """Without git (an unpacked source distribution)."""
    paths = [path.relative_to(ROOT) for path in sorted(ROOT.rglob("*"))]
    return [path.as_posix() for path in paths if not MADE_HERE & set(path.parts)]


def copy_to(place: Path) -> Path:
    """A copy of the repository's files, to be built, broken or edited."""
    for name, path in files().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place / name)
    return place
