"""What the picture of a message shows: the prices over the weeks before it of what it is about, as they were known when it was told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, select

from tracker.answers.decided import Decided, course
from tracker.book.asof import Moment
from tracker.book.exchange import Exchange, load_exchange
from tracker.book.held import Held, Window, held, window
from tracker.book.listing import OFFER, OFFERS, RATE, RATES
from tracker.book.spans import FOREVER, within, without
from tracker.database.rows import unscaled
from tracker.database.schema import RATE_SCALE, RENT_SCALE
from tracker.pictures.chart import Chart, Line, Panel, Step, joined
from tracker.pictures.lowest import lowest_of, stepped
from tracker.world import World

MOST, LEAST = timedelta(days=30), timedelta(days=14)  # of time that is shown: as much as is known
TICK = timedelta(seconds=1)  # what is observed at the end counts
GAPS = "Times are UTC. Where there is no line, nothing was observed."

Body = Mapping[str, Any]
Drawn = tuple[tuple[Panel, ...], tuple[str, ...]]  # and the notes below them


class Look:
    """One look back from the moment of a message."""

    def __init__(self, connection: Connection, world: World, told_at: datetime) -> None:
        self.connection, self.world, self.told_at = connection, world, told_at
        self.span: Window = window(told_at - MOST, told_at + TICK, told_at)
        self.exchange: Exchange = load_exchange(connection, Moment(at=told_at, known=told_at))


def chart_of(connection: Connection, world: World, message: Body, told_at: datetime) -> Chart | None:
    """What to draw for a message that was told then; None where it is not about a price, or nothing of it is known any more."""
    read = READ.get(str(message.get("kind", "")))
    if read is None:
        return None
    try:
        panels, notes = read(Look(connection, world, told_at), message)
    except KeyError:  # a message of before there were pictures, which does not say all that one is made of
        return None
    starts = [line.steps[0].start for panel in panels for line in panel.lines if line.steps]
    if not starts:
        return None
    start = min(max(min(starts), told_at - MOST), told_at - LEAST)
    return Chart(
        title=str(message["title"]), panels=panels, start=start, end=told_at + (told_at - start) / 50,
        changed_at=_moment(message, "changed_at", "observed_at") or told_at, notes=(*notes, GAPS),
    )  # fmt: skip


def _moment(message: Body, *names: str) -> datetime | None:
    found = next((message[name] for name in names if message.get(name)), None)
    return None if found is None else datetime.fromisoformat(str(found))


def _source_note(facts: Body, observed_at: object) -> str:
    when = f"{datetime.fromisoformat(str(observed_at)):%Y-%m-%d %H:%M} UTC" if observed_at else "?"
    address = str(facts.get("source_url") or "").partition("?")[0]
    return f"Source: {' '.join(part for part in (str(facts['provider']), address) if part)}, observed at {when}"


def _currency_note(look: Look, currency: str) -> tuple[str, ...]:
    """At which rate a foreign price is shown: at one, so that every step is one of the price."""
    found = None if currency == "USD" else look.exchange.per_usd(currency)
    return () if found is None else (f"{currency} at {found[0]:.4f} for 1 USD, the reference rate of {found[1]}, throughout.",)


# --- rents ------------------------------------------------------------------------------------------------------------


def _setups(look: Look, message: Body) -> Drawn:
    """The setup that was the cheapest and the one that is, USD per hour of all machines."""
    sides = [(role, word, message[f"{role}_setup"]) for role, word in (("old", "before"), ("new", "now")) if message.get(f"{role}_setup")]
    lines = tuple(
        Line(label=f"{word}: {_setup_words(facts)}", steps=_offer_steps(look, facts), role=role) for role, word, facts in _told_apart(sides)
    )
    notes = [_source_note(facts, facts["seen_at"]) for _, _, facts in reversed(sides)]
    notes += [note for currency in sorted({str(facts["currency"]) for _, _, facts in sides}) for note in _currency_note(look, currency)]
    return (Panel(unit="USD per hour, whole setup", lines=lines),), tuple(notes)


def _told_apart(sides: list[tuple[str, str, Body]]) -> list[tuple[str, str, Body]]:
    """One line where both are the same offer at another price."""
    same = len(sides) == 2 and sides[0][2].get("offer") == sides[1][2].get("offer")
    return [("new", "before and now", sides[1][2])] if same else sides


def _setup_words(facts: Body) -> str:
    place = " ".join(str(facts[name]) for name in ("provider", "sku", "region") if facts.get(name))
    return f"{facts['gpu_count']} x {facts['gpu']}, {place}"


def _offer_steps(look: Look, facts: Body) -> tuple[Step, ...]:
    same = [OFFER.c[name] == facts[name] for name in ("source", "provider", "sku", "region", "gpu", "tier", "trust", "currency")]
    rows = {row["id"]: dict(row) for row in look.connection.execute(select(OFFER).where(*same)).mappings()}
    rows = {id_: row for id_, row in rows.items() if facts["gpu_count"] % row["gpu_count"] == 0}
    found = held(look.connection, OFFERS, look.world.config.sources, {id_: row["source"] for id_, row in rows.items()}, look.span)
    sizes = {row["gpu_count"] for row in rows.values()}
    size = next((size for size in sorted(sizes) if _ends_at(rows, found, size, facts)), max(sizes, default=1))
    times = Decimal(facts["gpu_count"]) / size
    wanted = {id_: found.get(id_, []) for id_, row in rows.items() if row["gpu_count"] == size}
    prices = ((piece, unscaled(values["price"], RENT_SCALE) * times) for piece, values in _in_force(rows, wanted))
    usd = ((piece, look.exchange.usd(price, facts["currency"])) for piece, price in prices)
    return stepped((piece, value) for piece, value in usd if value is not None)


def _ends_at(rows: Mapping[int, Body], found: Mapping[int, Held], size: int, facts: Body) -> bool:
    """Whether the offer of that many GPUs is the one the message names: it was last seen at its price."""
    last = (spans[-1][1]["price"] for id_, spans in found.items() if spans and rows[id_]["gpu_count"] == size)
    return any(unscaled(price, RENT_SCALE) == Decimal(facts["native_per_hour"]) for price in last)


def _in_force(rows: Mapping[int, Body], found: Mapping[int, Held]) -> Held:
    """Of several dated prices of one thing the one that began last counts, from its day on."""
    ids = sorted(found, key=lambda id_: (rows[id_].get("valid_from") or 0, id_), reverse=True)
    taken: Held = []
    for id_ in ids:
        begun = rows[id_].get("valid_from") or 0
        over = [piece for piece, _ in taken]
        taken += [(rest, values) for piece, values in found[id_] for rest in without(within([piece], begun, FOREVER), over)]
    return sorted(taken, key=lambda entry: entry[0])


def _gpu(look: Look, message: Body) -> Drawn:
    """The lowest price of a GPU, USD per GPU and hour."""
    rule = look.world.alerts.rules.get(str(message.get("rule", "")))
    steps = lowest_of(look.connection, look.world, message["gpu"], message["tier"], rule, look.exchange, look.span)
    line = Line(label=f"lowest {message['gpu']}, {str(message['tier']).replace('_', ' ')}", steps=steps)
    offer = message.get("new_offer") or {}
    notes = (_source_note(message, message.get("observed_at")), *_currency_note(look, str(offer.get("currency", "USD"))))
    return (Panel(unit="USD per GPU and hour", lines=(line,)),), notes


# --- rates ------------------------------------------------------------------------------------------------------------


def _rate(look: Look, message: Body) -> Drawn:
    """The token prices that changed, in the currency they are printed in."""
    names = ("model", "provider", "sku", "region", "currency", "source", "source_model")
    same = [RATE.c[name] == message[name] for name in names if name in message]  # older messages lack the last two
    same += [RATE.c.min_prompt_tokens == 0, RATE.c.hours_utc == "", RATE.c.weekdays == ""]
    rows = {row["id"]: dict(row) for row in look.connection.execute(select(RATE).where(*same)).mappings()}
    found = held(look.connection, RATES, look.world.config.sources, {id_: row["source"] for id_, row in rows.items()}, look.span)
    spans = _in_force(rows, found)
    lines = tuple(
        Line(
            label=str(kind).replace("_", " "), role="new" if place == 0 else "other",
            steps=stepped((piece, unscaled(values[kind], RATE_SCALE)) for piece, values in spans if values[kind] is not None),
        )
        for place, kind in enumerate(message["new_per_mtok"])
    )  # fmt: skip
    unit = f"{message['currency']} per million tokens"
    return (Panel(unit=unit, lines=lines),), (_source_note(message, message.get("observed_at")),)


# --- answers ----------------------------------------------------------------------------------------------------------


def _answers(look: Look, message: Body) -> list[Decided]:
    return course(
        look.connection, look.world.config.sources, look.told_at - MOST, look.told_at + TICK, model=message["model"],
        workload=message["workload"], policy=message["policy"],
    )  # fmt: skip


def _decided(look: Look, answers: list[Decided], name: str) -> tuple[Step, ...]:
    """One figure of the answers over time."""
    start, end = look.told_at - MOST, look.told_at + TICK
    ends = [*(answer.at for answer in answers[1:]), end]
    told = ((max(answer.at, start), until, getattr(answer, name)) for answer, until in zip(answers, ends, strict=True))
    return joined([Step(begun, until, value) for begun, until, value in told if value is not None and begun < until])


def _prices(look: Look, message: Body) -> Drawn:
    """Rent and API rate, which the break-even follows from."""
    answers = _answers(look, message)
    rent = Line(label=f"cheapest setup for {message['model']}", steps=_decided(look, answers, "usd_per_hour"))
    rate = Line(label="cheapest API, by the workload's mix", steps=_decided(look, answers, "api_usd_per_mtok"), role="other")
    return (
        (Panel(unit="USD per hour, whole setup", lines=(rent,)), Panel(unit="USD per million tokens", lines=(rate,))),
        tuple(_answer_notes(message)),
    )


def _bills(look: Look, message: Body) -> Drawn:
    """What the workload costs either way."""
    answers = _answers(look, message)
    own = Line(label="self-hosting", steps=_decided(look, answers, "self_host_usd_per_month"))
    api = Line(label="API", steps=_decided(look, answers, "api_usd_per_month"), role="other")
    return (Panel(unit=f"USD per month, {message['workload']}", lines=(own, api)),), tuple(_answer_notes(message))


def _answer_notes(message: Body) -> Iterator[str]:
    if message.get("provider"):
        yield _source_note(message, message.get("observed_at"))
    if message.get("api_provider"):
        yield _source_note({"provider": message["api_provider"], "source_url": message.get("api_source_url")}, message.get("observed_at"))


READ: Mapping[str, Callable[[Look, Body], Drawn]] = {
    "cheaper_setup": _setups, "setup_gone": _setups, "price_drop": _gpu, "price_rise": _gpu, "rate_change": _rate,
    "break_even_crossed": _prices, "verdict_flip": _bills,
}  # fmt: skip
