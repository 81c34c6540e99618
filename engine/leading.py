"""The ranking of one model where mostly its best setups are wanted: they are looked up, and what is behind them waits until asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from engine.candidates import DEFAULT_SETUPS, Setup, SetupKind, SetupPolicy
from engine.fits import Fit
from engine.formats import WeightFormat
from engine.ladders import Market
from engine.models import ModelSpec
from engine.rejections import Rejected
from engine.setups import Ranking, rank_setups
from engine.winners import Compiled, cheapest_of


class Leading(Ranking):
    """What :func:`engine.setups.rank_setups` finds. The best setup of every GPU is there; the rest is worked out at the first question.

    ``fits`` is asked for those of the model only then.
    """

    __slots__ = ("_asked", "_best", "_whole")

    _asked: tuple[ModelSpec, Callable[[], Iterable[Fit]], Market, Mapping[str, WeightFormat], SetupPolicy]
    _best: tuple[Setup, ...]
    _whole: Ranking | None

    def __init__(
        self,
        compiled: Compiled,
        model: ModelSpec,
        fits: Callable[[], Iterable[Fit]],
        split: Market,
        formats: Mapping[str, WeightFormat],
        policy: SetupPolicy = DEFAULT_SETUPS,
    ) -> None:
        found = sorted(cheapest_of(compiled, split.eligible).values(), key=lambda candidate: candidate.order)
        for name, value in (
            ("_best", tuple(candidate.setup for candidate in found)),
            ("_asked", (model, fits, split, formats, policy)),
            ("_whole", None),
        ):
            object.__setattr__(self, name, value)

    @property
    def whole(self) -> Ranking:
        """All of it. Two who ask at once may both work it out, and find the same."""
        found = self._whole
        if found is None:
            model, fits, split, formats, policy = self._asked
            found = rank_setups(model, fits(), split, formats, policy)
            object.__setattr__(self, "_whole", found)
        return found

    @property
    def buyable(self) -> tuple[Setup, ...]:
        """The best of every GPU and format, cheapest first."""
        return self.whole.buyable

    @property
    def indicative(self) -> tuple[Setup, ...]:
        """The same at the lowest price per GPU."""
        return self.whole.indicative

    @property
    def rejected(self) -> tuple[Rejected, ...]:
        """Why the others lost."""
        return self.whole.rejected

    @property
    def best(self) -> Setup | None:
        """The cheapest setup one can rent as it stands."""
        return self._best[0] if self._best else None

    def per_gpu(self, kind: SetupKind = "buyable") -> tuple[Setup, ...]:
        """The best setup of every GPU, cheapest first."""
        return self._best if kind == "buyable" else self.whole.per_gpu(kind)
