"""``[budget.NAME]`` of ``tracker.toml``: so many USD a calendar month, and what they are for."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, RootModel, model_validator

from tracker.strict import Strict

NAME = r"^[a-z0-9][a-z0-9_-]{0,40}$"


class ApiUse(Strict):
    """A workload of a model at API prices: those of one provider, or the cheapest of each moment."""

    model: str
    workload: str = ""  # empty: that of [track]
    provider: str = ""
    tokens_per_month: Decimal | None = Field(default=None, gt=0, le=10**18)  # of the workload's mix; None: the workload's volume


class BudgetSettings(Strict):
    """What it covers, all together."""

    usd_per_month: Decimal = Field(gt=0, le=10**9)
    api: tuple[ApiUse, ...] = ()
    rented: tuple[str, ...] = ()  # models: what [baseline] states is rented for them
    rentals: str = ""  # file of booked rentals, as `report --rentals` reads it

    @model_validator(mode="after")
    def _covers_something(self) -> BudgetSettings:
        if not (self.api or self.rented or self.rentals):
            raise ValueError("must name what it is for: api, rented or rentals")
        return self


class BudgetsSettings(RootModel[dict[Annotated[str, Field(pattern=NAME)], BudgetSettings]]):
    """Budgets by name."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    @property
    def uses(self) -> frozenset[ApiUse]:
        """Every API use of any budget, once."""
        return frozenset(use for budget in self.root.values() for use in budget.api)


def file_of(name: str, config_dir: Path, user_dir: Path | None) -> Path:
    """The file of that name: in the configuration directory unless it says otherwise."""
    return (user_dir or config_dir) / name
