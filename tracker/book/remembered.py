"""What this process knows of each source's listing since it kept its last sweep, so that the next one need not read it again.

It is used only where the transaction that keeps a sweep finds the source at the very version that was remembered, and changed only
after a transaction has ended well; otherwise the database is read, and so it is for the sources that would be too many rows: as they
take turns, to let go of others for them would help none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tracker.book.listing import OFFERS, RATES, Known, Listing
from tracker.book.standing import Version

MOST_MOVES = 4  # of a source, that nobody has followed yet
MOST_ROWS = 40_000  # about 450 bytes each

Listings = Mapping[str, Listing]  # by the name of a kind
Updates = Mapping[str, Mapping[str, Known]]  # by kind and identity: what a sweep changed


@dataclass(slots=True)
class Remembered:
    """The listings of sources by their last known version."""

    most_rows: int = MOST_ROWS
    _found: dict[str, tuple[Version, Listings]] = field(default_factory=dict)
    _rows: dict[str, int] = field(default_factory=dict)
    _moves: dict[str, deque[tuple[Version, Version, Updates]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, source: str, version: Version) -> Listings | None:
        """The listing of a source at just that version, for the transaction that found it there; else None, and it is forgotten."""
        with self._lock:
            known, listings = self._found.get(source, (None, None))
            if known != version:
                self._found.pop(source, None)
                self._rows.pop(source, None)
            return listings if known == version else None

    def put(self, source: str, version: Version, listings: Listings, updates: Updates) -> None:
        """Remember a listing with what a sweep that is kept changed in it."""
        with self._lock:
            is_new = self._found.pop(source, None) is None
            for kind in (OFFERS, RATES):
                listings[kind.name].update(updates.get(kind.name, {}))
                if is_new:
                    listings[kind.name].share_words(kind)
            self._rows[source] = sum(len(listing.known) for listing in listings.values())
            if sum(self._rows.values()) > self.most_rows:
                del self._rows[source]
            else:
                self._found[source] = (version, listings)

    def moved(self, source: str, before: Version, after: Version, updates: Updates) -> None:
        """Note what a sweep that is kept changed, for whoever follows the source from version to version."""
        with self._lock:
            self._moves.setdefault(source, deque(maxlen=MOST_MOVES)).append((before, after, updates))

    def moves(self, source: str, before: Version, after: Version) -> list[Updates] | None:
        """What changed between two versions, oldest first; None where not every step between them is known. Older steps are let go."""
        with self._lock:
            steps = self._moves.get(source, deque())
            while steps and steps[0][0] != before:
                steps.popleft()
            found: list[Updates] = []
            for start, end, updates in steps:
                if start != before:
                    return None
                found.append(updates)
                before = end
                if before == after:
                    return found
            return None
