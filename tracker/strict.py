"""What the tables of configuration files are read by: an unknown key is refused. A check is built when its first table is read."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A table without unknown keys, which never changes once it was read."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
