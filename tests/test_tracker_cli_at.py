"""``--at``: every command that answers from the book answers as it was known then, and none that writes takes it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from commands import NOW, Ran, breakeven
from sqlalchemy import Engine

from scrapers.contract import FxQuote
from tracker.book.bookfile import Dated
from tracker.book.bookstore import import_dated
from tracker.database.handle import open_database
from tracker.database.rows import OfferRow, RateRow, scaled, to_s
from tracker.database.tables import RATE_SCALE, RENT_SCALE
from tracker.paths import config_dir
from tracker.service.opening import open_book
from tracker.sweeps.store import SweepReport, record_sweep
from tracker.world import load_world

B300, KIMI = "nvidia-b300-sxm-288", "kimi-k3.1-pro"
START = NOW - timedelta(days=10)  # of the book
THEN = START + timedelta(hours=1)
AT = f"{THEN:%Y-%m-%dT%H:%MZ}"


def offer(price: str, provider: str = "runpod", currency: str = "USD") -> OfferRow:
    return OfferRow(
        provider=provider, sku="8x B300", region="", gpu=B300, gpu_count=8, tier="on_demand", trust="datacenter", currency=currency,
        price=scaled(Decimal(price), RENT_SCALE),
    )  # fmt: skip


def rate(price_in: str, price_out: str) -> RateRow:
    return RateRow(
        provider="moonshot", source_model=KIMI, model=KIMI, currency="USD", input=scaled(Decimal(price_in), RATE_SCALE),
        cache_read=scaled(Decimal(price_in) / 10, RATE_SCALE), output=scaled(Decimal(price_out), RATE_SCALE),
    )  # fmt: skip


def sweep(db: Engine, source: str, days: float, **how: object) -> None:
    at = START + timedelta(days=days)
    record_sweep(db, SweepReport(source=source, started_at=at, finished_at=at, status="ok", **how))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A book begun ten days ago: eight B300 at EUR 40 at 1.25 dollars, Kimi at 2/10."""
    folder = tmp_path_factory.mktemp("begun")
    db = open_book(load_world(config_dir(), folder / "none"), folder, START)
    day = (START - timedelta(days=1)).date()
    sweep(db, "ecb", 0, fx=[FxQuote(base="EUR", currency="USD", rate=Decimal("1.25"), day=day)])
    sweep(db, "runpod", 0, offers=[offer("40", currency="EUR")], unmapped=[("gpu", "B999")])
    sweep(db, "moonshot", 0, rates=[rate("2", "10")])
    db.dispose()
    return folder


@pytest.fixture
def db(begun: Path) -> Iterator[Engine]:
    """The book the commands open."""
    data = Path(os.environ["BREAKEVEN_DATA"])
    shutil.copytree(begun, data, dirs_exist_ok=True)
    handle = open_database(f"sqlite:///{data / 'breakeven.db'}")
    yield handle
    handle.dispose()


def happen(db: Engine) -> None:
    """What came later: other prices, another euro, a recording of the past, and a name nothing maps."""
    day = (START + timedelta(days=2)).date()
    sweep(db, "ecb", 3, fx=[FxQuote(base="EUR", currency="USD", rate=Decimal("2"), day=day)])
    sweep(db, "runpod", 4, offers=[offer("20", currency="EUR")], unmapped=[("gpu", "B1000")])
    sweep(db, "moonshot", 4, rates=[rate("1", "5")])
    since = START - timedelta(days=20)
    import_dated(db, [Dated(offer("1", "old"), "price-page", to_s(since), to_s(THEN), None)], START + timedelta(days=5))


ANSWERS = [
    ("cheapest", KIMI, "--explain"),
    ("breakeven", KIMI, "--explain"),
    ("offers", "--gpu", B300),
    ("rates", KIMI),
    ("plan", KIMI, "--tokens-per-month", "100B"),
    ("bill", KIMI, "--provider", "moonshot"),
    ("changes", "--since", "2d"),
    ("history", "gpu", B300, "--since", "2d", "--step", "6h"),
    ("history", "offer", "8x B300", "--since", "2d"),
    ("history", "rate", KIMI, "--since", "2d"),
    ("history", "setup", KIMI, "--since", "1d"),
    ("history", "breakeven", KIMI, "--since", "1d"),
    ("sources",),
    ("sources", "--unmapped"),
]


def asked(*words: str) -> Ran:
    found = breakeven(*words)
    assert (found.code, found.err) == (0, "")
    return found


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_it_answers_as_was_known_then_whatever_came_later(db: Engine, words: tuple[str, ...]) -> None:
    before = asked(*words, "--json", "--at", AT).out
    happen(db)
    assert asked("--at", AT, *words, "--json").out == before
    assert asked(*words, "--json", f"--at={AT}").out == before
    assert asked(*words, "--json").out != before


def test_the_figures_are_those_of_then(db: Engine) -> None:
    """EUR 40 x 1.25 = $50 then; EUR 20 x 2 = $40 now."""
    happen(db)
    then, now = (asked("offers", "--gpu", B300, "--provider", "runpod", "--json", *at).json for at in (("--at", AT), ()))
    assert [Decimal(o["usd_per_hour"]) for o in then if not o["imported"]] == [50]
    assert [Decimal(o["usd_per_hour"]) for o in now if not o["imported"]] == [40]


def test_an_export_and_a_report_are_of_then(db: Engine, tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text(f"day,provider,model,input,cache_read,output\n{THEN:%Y-%m-%d},moonshot,{KIMI},1000000,0,1000000\n")
    report = ("report", "--month", f"{THEN:%Y-%m}", "--usage", str(tmp_path / "usage.csv"), "--json", "--at", AT)
    before = asked(*report).out
    asked("export", "book", str(tmp_path / "before"), "--at", AT)
    happen(db)
    assert asked(*report).out == before
    asked("export", "book", str(tmp_path / "after"), "--at", AT)
    for name in ("offers.csv", "rates.csv"):
        assert (tmp_path / "after" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()


@pytest.mark.parametrize(
    "words",
    [("collect",), ("import", "book", "x"), ("import", "history", "aws", "x"), ("quarantine", "accept", "1")],
    ids=" ".join,
)
def test_what_writes_does_so_only_now(db: Engine, words: tuple[str, ...]) -> None:
    told = breakeven(*words, "--at", AT)
    assert (told.code, told.out) == (1, "")
    assert told.err == "breakeven: --at is for looking back; this command changes the book, and can do so only now\n"


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("2030-01-01", "--at '2030-01-01' lies in the future; it is 2026-11-29T12:00:00Z"),
        ("noon", "--at 'noon' is no time; write 2026-10-16 or 2026-10-16T12:00Z"),
        ("0001-01-01T00:00+14:00", "--at '0001-01-01T00:00+14:00' is no time; write 2026-10-16 or 2026-10-16T12:00Z"),
    ],
)
def test_a_time_that_cannot_be_is_one_line(db: Engine, at: str, why: str) -> None:
    told = breakeven("offers", "--at", at)
    assert (told.code, told.out, told.err) == (1, "", f"breakeven: {why}\n")


def test_of_a_time_before_the_book_it_answers_from_imported_history_and_says_so(db: Engine) -> None:
    """The embedded book came with the beginning; its prices keep their own dates."""
    early = "2026-10-20"
    told = breakeven("offers", "--gpu", "nvidia-h200-sxm-141", "--json", "--at", early)
    assert told.code == 0
    assert told.err == (
        f"breakeven: the book began after 2026-10-20 00:00 UTC; answered from imported history, as known at {START:%Y-%m-%d %H:%M} UTC\n"
    )
    assert told.json
    assert all(entry["imported"] and entry["seen_at"] <= f"{early}T00:00:00Z" for entry in told.json)
