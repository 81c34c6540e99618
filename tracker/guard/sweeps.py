"""Whole sweeps that cannot be true: too much is missing at once, too much is implausible, or a column is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from tracker.book.listing import OFFERS, Kind, Known, Prices, said
from tracker.guard.doubts import SweepRefused
from tracker.guard.settings import GuardSettings

DROP, ANCHOR, IMPLAUSIBLE, MOVED, LOST = "drop", "anchor", "implausible", "moved", "lost"
BELIEVED_IN_TIME = (DROP, LOST)  # what is missing is missing; a wrong price does not become right by staying


@dataclass(slots=True)
class Tally:
    """What one sweep did to one kind of price, counted before anything is kept."""

    kind: Kind
    known: Mapping[str, Known]
    missing: Mapping[str, Known]  # listed and not printed
    implausible: int = 0  # outside a band, or far from everybody else
    judged: int = 0  # rows whose plausibility was looked at
    moved: int = 0  # beyond the limit of a change
    compared: int = 0  # rows with a price before
    lost: Counter[str] = field(default_factory=Counter)  # token kinds that a row had before and has no more
    had: Counter[str] = field(default_factory=Counter)  # counted where enough rows lost one

    def note_lost(self, old: Prices, new: Prices) -> None:
        """Count the components of a price that were known before and are gone."""
        self.lost.update(name for name, price in old.items() if price is not None and new.get(name) is None)

    def note_had(self, listed: Iterable[Prices]) -> None:
        """Count the components that were known before."""
        for old in listed:
            self.had.update(name for name, price in old.items() if price is not None)


def refuse_if_impossible(tally: Tally, source: str, settings: GuardSettings, accepted: Collection[str]) -> None:
    """SweepRefused where the sweep cannot be true. ``accepted``: faults that a person, or enough time, has let pass."""
    for fault, message in _faults(tally, source, settings):
        if fault not in accepted:
            raise SweepRefused(fault, f"{source}: {message}; if that is true: breakeven quarantine accept, else wait or look at the source")


def _faults(tally: Tally, source: str, settings: GuardSettings) -> list[tuple[str, str]]:
    found = [
        (ANCHOR, _anchor(tally, source, settings)),
        (DROP, _drop(tally, settings) or _provider_drop(tally, settings)),
        (IMPLAUSIBLE, _mass(tally.implausible, tally.judged, settings, "prices are implausible", _fewest(tally, settings))),
        (MOVED, _mass(tally.moved, tally.compared, settings, "prices moved beyond the limit at once", settings.mass_rows)),
        (LOST, _lost(tally, settings)),
    ]
    return [(fault, message) for fault, message in found if message]


def _missing(tally: Tally) -> dict[str, Known]:
    """Listed prices that this sweep is the first not to print."""
    return {key: known for key, known in tally.missing.items() if not known.is_missed}


def _present(tally: Tally) -> dict[str, Known]:
    """Listed prices that the last sweep printed."""
    return {key: known for key, known in tally.known.items() if not known.gone and not known.is_missed}


def _drop(tally: Tally, settings: GuardSettings) -> str:
    missing = _missing(tally)
    if len(missing) < settings.drop_rows:
        return ""
    before, limit = _present(tally), settings.rent_drop if tally.kind is OFFERS else settings.token_drop
    if len(missing) > limit * len(before):
        return f"{len(missing)} of {len(before)} listed prices vanished at once (limit {limit:.0%})"
    return ""


def _provider_drop(tally: Tally, settings: GuardSettings) -> str:
    missing = Counter(said(tally.kind, key, "provider") for key in _missing(tally))
    if max(missing.values(), default=0) < settings.provider_rows:
        return ""
    before = Counter(said(tally.kind, key, "provider") for key in _present(tally))
    for provider, count in missing.items():
        if count == before[provider] and count >= settings.provider_rows and len(before) > 1:
            return f"all {count} prices of {provider} vanished at once"
    return ""


def _anchor(tally: Tally, source: str, settings: GuardSettings) -> str:
    """A GPU or model the source cannot be without has no price left in this sweep."""
    for anchor in settings.anchors.get(source, ()) if (missing := _missing(tally)) else ():
        if any(_is_of(tally, key, anchor) for key in missing):
            left = (key for key, known in tally.known.items() if not known.gone and key not in missing)
            if not any(_is_of(tally, key, anchor) for key in left):
                return f"{anchor}, which it listed, is missing"
    return ""


def _is_of(tally: Tally, key: str, thing: str) -> bool:
    return bool(said(tally.kind, key, tally.kind.thing) == thing)


def _fewest(tally: Tally, settings: GuardSettings) -> int:
    """Fewer implausible prices are no mass."""
    return settings.mass_rows if any(not known.gone for known in tally.known.values()) else settings.mass_first


def _mass(count: int, of: int, settings: GuardSettings, what: str, fewest: int) -> str:
    if count >= fewest and count > settings.mass_share * of:
        return f"{count} of {of} {what} (limit {settings.mass_share:.0%})"
    return ""


def _lost(tally: Tally, settings: GuardSettings) -> str:
    """A component that most rows had and have no more: a column the parser no longer finds."""
    for name in tally.kind.prices:
        count = tally.lost[name]
        if count >= settings.lost_rows and count > settings.lost_share * tally.had[name]:
            return f"{count} of {tally.had[name]} prices lost their {name.replace('_', ' ')} price at once"
    return ""
