"""Every kind of alert on a small book: what makes it, what does not, and what it says. Figures are worked out in the comments."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from small_world import FILES, T0, fx, offer, rate, sweep
from sqlalchemy import Engine
from watching import CHEAPER, SECOND, STALE, TRACK_ONE, Watch, watch_with

from tracker.answers.recompute import Sizer, recompute
from tracker.database.handle import writing
from tracker.guard.quarantine import QUARANTINE

Make = Callable[..., Watch]
VENDOR = {"input": "2", "cache_read": "0.2", "output": "10"}  # 6,000 x 0.2 + 1,500 x 2 + 500 x 10 = $0.0092 a request of 8,000 tokens


@pytest.fixture
def make(db: Engine, tmp_path: Path) -> Make:
    return lambda rules, **changed: watch_with(db, tmp_path, rules, **changed)


# --- a cheaper setup, like with like --------------------------------------------------------------------------------------

EIGHT_BIT = FILES["formats.toml"] + FILES["formats.toml"].replace("[bf16]", "[fp8]").replace("= 16", "= 8").replace("= 100", "= 80")


def test_a_coarser_format_is_no_cheaper_setup_of_the_same_quality(make: Make) -> None:
    """60 GB of 8-bit weights fit one test-80, which no 16-bit weights do."""
    watch = make(CHEAPER, formats_toml=EIGHT_BIT)
    watch.look("2.00")
    assert [watch.look("2.00", offer("1.00", sku="80x1", gpu="test-80")) for _ in range(3)] == [()] * 3
    watch.look("1.80", offer("1.00", sku="80x1", gpu="test-80"))
    (alarm,) = watch.look("1.80", offer("1.00", sku="80x1", gpu="test-80"))
    assert "$1.80/h instead of $2.00/h" in alarm.text


def test_an_outage_of_the_source_with_the_exact_weights_is_not_taken_for_the_end_of_them(make: Make) -> None:
    """While it is stale, which is for two of the five hours, only 8-bit weights at $1.50 are left."""
    watch = make(CHEAPER, formats_toml=EIGHT_BIT, sources_toml=SECOND)
    watch.look(offer("5.00", sku="80x1", gpu="test-80", provider="others"), source="others")
    watch.look("2.00")
    watch.minutes = 60
    assert [watch.look(offer("1.50", sku="80x1", gpu="test-80", provider="others"), source="others") for _ in range(5)] == [()] * 5
    assert watch.baseline() == Decimal("2.00")


def test_unless_that_is_asked_for(make: Make) -> None:
    watch = make(CHEAPER + 'quality = "any"\n', formats_toml=EIGHT_BIT)
    watch.look("2.00")
    watch.look("2.00", offer("1.00", sku="80x1", gpu="test-80"))
    (alarm,) = watch.look("2.00", offer("1.00", sku="80x1", gpu="test-80"))
    assert "$1.00/h instead of $2.00/h" in alarm.text
    assert "1 x test-80, fp8" in alarm.text


def test_what_is_left_of_a_lower_quality_is_compared_anew_and_not_called_cheaper(make: Make) -> None:
    watch = make(CHEAPER, formats_toml=EIGHT_BIT)
    coarse = offer("1.00", sku="80x1", gpu="test-80")
    watch.look("2.00", coarse)
    assert [watch.look(coarse) for _ in range(6)] == [()] * 6  # the only setup in 16 bits is gone
    assert watch.baseline() == Decimal("1.00")
    watch.look(offer("0.80", sku="80x1", gpu="test-80"))
    (alarm,) = watch.look(offer("0.80", sku="80x1", gpu="test-80"))
    assert "$0.80/h instead of $1.00/h" in alarm.text


def test_a_source_that_is_read_for_the_first_time_is_no_news(make: Make) -> None:
    """It was switched on, or answered in vain until now: its prices were there all the time."""
    watch = make(CHEAPER, sources_toml=SECOND)
    watch.look(source="others", status="failed", error="no answer")
    watch.look("3.00")
    assert [watch.look("2.00", source="others") for _ in range(4)] == [()] * 4
    assert watch.baseline() == Decimal("2.00")
    watch.look("1.80", source="others")
    assert len(watch.look("1.80", source="others")) == 1


def test_the_exchange_rate_is_no_price(make: Make) -> None:
    """The same EUR 2 an hour: $2.50 at 1.25, $2.20 at 1.10. A price of EUR 1.80 is another."""
    watch = make(CHEAPER)
    day = watch.at.date()
    sweep(watch.db, "ecb", watch.at - timedelta(hours=1), fx=fx(day - timedelta(days=3), USD="1.25"), rows=1)
    watch.look(offer("2.00", currency="EUR"))
    assert watch.baseline() == Decimal("2.50")
    sweep(watch.db, "ecb", watch.at, fx=fx(day, USD="1.10"), rows=1)
    assert [watch.look(offer("2.00", currency="EUR")) for _ in range(4)] == [()] * 4
    watch.look(offer("1.80", currency="EUR"))
    (alarm,) = watch.look(offer("1.80", currency="EUR"))
    assert "$1.98/h instead of $2.50/h" in alarm.text


# --- watched prices -------------------------------------------------------------------------------------------------------

DROP = '[rules.drop]\nkind = "price_drop"\ngpus = ["test-80"]\npercent = 10\nrearm_hours = 24\n'
RISE = DROP.replace("drop", "rise")


def gpu(price: str, **other: object) -> object:
    """Two test-80; the price is of one."""
    return offer(str(2 * Decimal(price)), sku="80x2", gpu="test-80", gpu_count=2, **other)


def test_a_watched_gpu_is_cheaper(make: Make) -> None:
    watch = make(DROP)
    watch.look(gpu("1.00"))
    assert [watch.look(gpu("0.91")) for _ in range(3)] == [()] * 3
    watch.look(gpu("0.90"))
    (alarm,) = watch.look(gpu("0.90"))
    assert alarm.text == (
        "price drop of test-80 on demand: $0.90/h instead of $1.00/h (-10.0 %): 2 x test-80, cloud 80x2, seen 2026-11-02 13:30 UTC"
    )
    assert (alarm.kind, alarm.subject, alarm.facts["target_usd_per_gpu_hour"]) == ("price_drop", "test-80/on_demand", "0.9")


def test_a_watched_gpu_is_dearer(make: Make) -> None:
    watch = make(RISE)
    watch.look(gpu("1.00"))
    assert [watch.look(gpu("1.09")) for _ in range(3)] == [()] * 3
    watch.look(gpu("1.10"))
    (alarm,) = watch.look(gpu("1.10"))
    assert "price rise of test-80 on demand: $1.10/h instead of $1.00/h (+10.0 %)" in alarm.text


@pytest.mark.parametrize("other", [{"tier": "spot"}, {"trust": "community"}, {"availability": 2}, {"price_kind": "starting_at"}])
def test_what_is_not_watched_moves_nothing(make: Make, other: dict[str, object]) -> None:
    watch = make(DROP)
    watch.look(gpu("1.00"))
    tempting = offer("0.10", sku="tempting", gpu="test-80", **other)
    assert [watch.look(gpu("1.00"), tempting) for _ in range(3)] == [()] * 3


def test_a_rule_may_watch_one_provider_s_offer(make: Make) -> None:
    watch = make(DROP + 'providers = ["cloud"]\nskus = ["80x2"]\n')
    watch.look(gpu("1.00"))
    others = [offer("0.10", sku="another", gpu="test-80"), gpu("0.20", provider="newcomer")]
    assert [watch.look(gpu("1.00"), *others) for _ in range(3)] == [()] * 3
    watch.look(gpu("0.80"), *others)
    assert len(watch.look(gpu("0.80"), *others)) == 1


def test_a_price_that_is_not_compared_is_not_watched(make: Make) -> None:
    """Two sources list one provider, and the first of ``precedence`` speaks for it."""
    track = TRACK_ONE + '\n[precedence]\ncloud = ["rents", "others"]\n'
    watch = make(DROP.replace("percent = 10", "percent = 10\nsweeps = 1"), sources_toml=SECOND, tracker_toml=track)
    watch.look(gpu("1.00"))
    watch.look(gpu("1.00"), source="others")
    watch.look(gpu("1.00"))
    assert watch.look(gpu("0.50"), source="others") == ()
    assert len(watch.look(gpu("0.80"))) == 1


def test_a_move_of_less_than_so_many_cents_is_none(make: Make) -> None:
    watch = make(DROP + "usd_per_gpu_hour = 0.2\n")
    watch.look(gpu("1.00"))
    assert [watch.look(gpu("0.81")) for _ in range(3)] == [()] * 3
    watch.look(gpu("0.80"))
    assert len(watch.look(gpu("0.80"))) == 1


# --- token prices ---------------------------------------------------------------------------------------------------------

TOKENS2 = "[tokens2]" + FILES["sources.toml"].split("[tokens]")[1].split("[ecb]")[0]
RATES = '[rules.rates]\nkind = "rate_change"\npercent = 1\n'


def test_a_token_price_that_changed_is_told_with_what_changed(make: Make) -> None:
    watch = make(RATES)
    watch.look(rate(**VENDOR), source="tokens")
    watch.look(rate(**VENDOR | {"output": "8"}), source="tokens")
    (alarm,) = watch.look(rate(**VENDOR | {"output": "8"}), source="tokens")
    assert alarm.text == "rate change: vendor large-60b: output 10 to 8 USD per Mtok, seen 2026-11-02 12:45 UTC"
    assert (alarm.facts["old_per_mtok"], alarm.facts["new_per_mtok"]) == ({"output": "10"}, {"output": "8"})
    watch.look(rate(**VENDOR), source="tokens")
    (alarm,) = watch.look(rate(**VENDOR), source="tokens")
    assert "output 8 to 10 USD" in alarm.text  # both ways


def test_a_rate_in_another_currency_is_told_in_it_and_the_exchange_rate_is_not(make: Make) -> None:
    watch = make(RATES)
    day = watch.at.date()
    sweep(watch.db, "ecb", watch.at - timedelta(hours=1), fx=fx(day - timedelta(days=3), USD="1.25", CNY="8.75"), rows=2)
    prices = {"input": "14", "cache_read": "7", "output": "70"}
    watch.look(rate(currency="CNY", **prices), source="tokens")
    sweep(watch.db, "ecb", watch.at, fx=fx(day, USD="1.10", CNY="8.75"), rows=2)
    assert [watch.look(rate(currency="CNY", **prices), source="tokens") for _ in range(3)] == [()] * 3
    watch.look(rate(currency="CNY", **prices | {"input": "15"}), source="tokens")
    (alarm,) = watch.look(rate(currency="CNY", **prices | {"input": "15"}), source="tokens")
    assert "input 14 to 15 CNY per Mtok" in alarm.text


def test_two_sources_of_one_provider_are_watched_side_by_side(make: Make) -> None:
    """Every look at one is not a change back from the other."""
    watch = make(RATES, sources_toml=FILES["sources.toml"] + TOKENS2)
    other = rate(**VENDOR | {"input": "2.1"})
    for _ in range(2):
        watch.look(rate(**VENDOR), source="tokens")
        assert watch.look(other, source="tokens2") == ()
    told = []
    for _ in range(3):
        told += [alarm.text for alarm in watch.look(rate(**VENDOR | {"input": "1"}), source="tokens")]
        told += [alarm.text for alarm in watch.look(other, source="tokens2")]
    assert [text.partition(", seen")[0] for text in told] == ["rate change: vendor large-60b: input 2 to 1 USD per Mtok"]
    assert watch.told()[0]["over_at"] is None


def test_a_batch_price_is_not_watched_where_it_is_not_compared(make: Make) -> None:
    watch = make(RATES)
    watch.look(rate(**VENDOR), rate(sku="batch", input="1", output="5"), source="tokens")
    batch = rate(sku="batch", input="9", output="9")
    assert [watch.look(rate(**VENDOR), batch, source="tokens") for _ in range(3)] == [()] * 3


# --- gone -----------------------------------------------------------------------------------------------------------------

GONE = '[rules.gone]\nkind = "setup_gone"\npercent = 5\n'


def test_the_cheapest_setup_is_gone(make: Make) -> None:
    """The sweep that misses it first is no proof: the book lists it until it was missed twice."""
    watch = make(GONE)
    dearer = offer("2.50", sku="other")
    watch.look("2.00", dearer)
    told = [watch.look(dearer) for _ in range(4)]
    assert [len(found) for found in told] == [0, 0, 1, 0]
    assert told[2][0].text == (
        "setup gone for large-60b: 1 x test-141, bf16, cloud 141x1 at $2.00/h is no longer sold; next is 1 x test-141, bf16, "
        "cloud other at $2.50/h ($365.00 a month more), seen 2026-11-02T13:00:00Z"
    )  # 0.50 * 730
    assert [watch.look(dearer) for _ in range(3)] == [()] * 3


def test_gone_without_a_successor(make: Make) -> None:
    watch = make(GONE)
    watch.look("2.00")
    small = offer("0.50", sku="small", gpu="test-80")  # does not hold the model
    told = [alarm.text for _ in range(5) for alarm in watch.look(small)]
    assert told == [
        "setup gone for large-60b: 1 x test-141, bf16, cloud 141x1 at $2.00/h is no longer sold; no other buyable setup is known"
    ]
    assert [watch.look("2.10") for _ in range(3)] == [()] * 3  # it is sold again
    assert [alarm.text[:25] for _ in range(5) for alarm in watch.look(small)] == ["setup gone for large-60b:"]


def test_gone_for_one_that_costs_hardly_more_is_no_news(make: Make) -> None:
    watch = make(GONE)
    watch.look("2.00", offer("2.09", sku="other"))
    assert [watch.look(offer("2.09", sku="other")) for _ in range(5)] == [()] * 5


def test_what_a_stale_source_does_not_print_is_not_gone(make: Make) -> None:
    watch = make(GONE, sources_toml=SECOND)
    watch.look("3.00", source="others")
    watch.look("2.00")
    for _ in range(20):
        assert watch.look("3.00", source="others") == ()


def test_sold_out_is_gone(make: Make) -> None:
    watch = make(GONE)
    watch.look("2.00", offer("3.00", sku="other"))
    soldout = offer("2.00", availability=2)
    assert [len(watch.look(soldout, offer("3.00", sku="other"))) for _ in range(3)] == [0, 1, 0]


# --- break-even and verdict -----------------------------------------------------------------------------------------------

# The workload: 1,000,000 requests of 8,000 tokens are 8.0 billion tokens, $9,200 a month at the vendor, $1.15 a Mtok.
# A test-141 serves 500,000 requests a month: two replicas. Break-even of one: rent x 730 / 1.15 Mtok.
CROSSED = '[rules.crossed]\nkind = "break_even_crossed"\nmargin_percent = 3\n'
FLIP = '[rules.flip]\nkind = "verdict_flip"\nmargin_percent = 3\n'


def answered(watch: Watch, rent: str, **prices: str) -> list[str]:
    """Both sources are read, and what is told after either."""
    first = watch.look(rate(**VENDOR | prices), source="tokens")
    return [alarm.text for alarm in (*first, *watch.look(rent))]


def test_break_even_is_crossed_either_way(make: Make) -> None:
    """At $12 an hour it is 12 x 730 / 1.15 = 7,617 Mtok; at $13 8,252; at $12.5 7,935, within 3 % of the volume: neither side."""
    watch = make(CROSSED)
    assert answered(watch, "12.00") == []
    assert answered(watch, "12.50") == answered(watch, "12.70") == []
    assert answered(watch, "13.00") == []
    (text,) = answered(watch, "13.00")
    assert text == (
        "break-even crossed for large-60b: 8.0 billion tokens a month are below it now; it is at 8.3 billion tokens a month; "
        "1 x test-141, bf16, cloud 141x1 at $13.00/h against vendor"
    )
    assert answered(watch, "12.00") == []
    (text,) = answered(watch, "12.00")
    assert "8.0 billion tokens a month are above it now; it is at 7.6 billion" in text


def test_the_verdict_flips_either_way(make: Make) -> None:
    """Two replicas at $6 are $8,760 a month against $9,200; at $6.50 $9,490; at $6.30 $9,198, within 3 %: neither."""
    watch = make(FLIP)
    assert answered(watch, "6.00") == []
    assert answered(watch, "6.30") == answered(watch, "6.30") == []
    assert answered(watch, "6.50") == []
    (text,) = answered(watch, "6.50")
    assert text == (
        "verdict for large-60b: API instead of self-host: the API bill is $9,200.00 a month against $9,490.00 for 2 replicas; "
        "break-even is at 4.1 billion tokens a month; 1 x test-141, bf16, cloud 141x1 at $6.50/h against vendor"
    )  # 6.50 * 730 / 1.15 = 4,126 Mtok
    assert answered(watch, "6.00") == []
    (text,) = answered(watch, "6.00")
    assert text.startswith("verdict for large-60b: self-host instead of API: the API bill is $9,200.00 a month against $8,760.00")


def test_a_verdict_stands_on_the_price_that_moved_and_not_on_how_often_the_others_are_read(make: Make) -> None:
    """The rent is read once at $6.50, which flips it, and token prices twice more: that is one sweep. So the other way round."""
    watch = make(FLIP)
    same, less = rate(**VENDOR), rate(**VENDOR | {"output": "4"})
    for _ in range(3):
        assert answered(watch, "6.00") == []
    assert watch.look("6.50") == ()
    assert [watch.look(same, source="tokens") for _ in range(2)] == [()] * 2
    assert answered(watch, "6.00") == []
    assert watch.look(less, source="tokens") == ()
    assert [watch.look("6.00") for _ in range(3)] == [()] * 3
    assert len(watch.look(less, source="tokens")) == 1


def test_a_verdict_on_stale_prices_is_none(make: Make) -> None:
    watch = make(FLIP)
    answered(watch, "6.00")
    watch.wait(hours=47)  # token prices may be 48 hours old, rents 3
    watch.look(rate(**VENDOR | {"output": "1"}), source="tokens")
    assert [watch.look(rate(**VENDOR | {"output": "1"}), source="tokens") for _ in range(3)] == [()] * 3


def test_nobody_is_told_of_a_verdict_before_every_source_was_asked(make: Make) -> None:
    """Token prices of a dearer provider come first: the cheaper one's would flip the verdict."""
    watch = make(FLIP, sources_toml=FILES["sources.toml"] + TOKENS2)
    watch.look("6.00")
    for _ in range(3):
        assert watch.look(rate(**VENDOR), source="tokens") == ()
    for _ in range(3):
        assert watch.look(rate(provider="cheap", input="0.1", output="0.1"), source="tokens2") == ()
    assert watch.told() == []


# --- quarantine -----------------------------------------------------------------------------------------------------------

HELD = '[rules.held]\nkind = "quarantine"\nprices = 4\nsweeps = 1\n'


def test_a_growing_quarantine_is_told_once_until_it_is_half_empty(make: Make, db: Engine) -> None:
    watch = make(HELD)

    def wait(count: int) -> list[str]:
        hold(db, count)
        return [alarm.text for alarm in watch.look("2.00")]

    assert wait(3) == []
    assert wait(4) == ["quarantine: 4 prices of rents are held back; breakeven quarantine list --source rents shows why"]
    assert [wait(count) for count in (5, 3, 2, 4, 9)] == [[]] * 5
    assert wait(1) == []
    (row,) = watch.told()
    assert row["over_at"] == watch.at
    assert len(wait(4)) == 1


@pytest.mark.parametrize("rule", ["stale", "held"])
def test_trouble_of_a_source_that_is_switched_off_is_over_and_told_anew_when_it_is_on_again(make: Make, tmp_path: Path, rule: str) -> None:
    rules = HELD if rule == "held" else STALE
    watch = make(rules)

    def trouble() -> list[str]:
        hold(watch.db, 4)
        return [alarm.rule for alarm in watch.look(status="failed", error="no answer")]

    watch.look("2.00")
    watch.wait(hours=4)
    assert trouble() == [rule]
    off = FILES["sources.toml"].replace("[rents]\n", "[rents]\nenabled = false\n", 1)
    on, watch.world = watch.world, watch_with(watch.db, tmp_path / "off", rules, sources_toml=off).world
    watch.restart()
    watch.wait(minutes=1)
    watch.desk.judge(recompute(watch.db, watch.world, Sizer(watch.world), watch.at))
    assert watch.told()[0]["over_at"] == watch.at
    watch.world = on
    watch.restart()
    assert (trouble(), trouble()) == ([rule], [])


def hold(db: Engine, count: int) -> None:
    """So many prices of ``rents`` wait."""
    with writing(db) as connection:
        connection.execute(QUARANTINE.delete())
        for number in range(count):
            row = dict.fromkeys(("kind", "key", "subject", "old", "new", "row", "reason", "release", "decided_by"), "x")
            times = {"first_seen": T0, "last_seen": T0, "last_at": number, "sweeps": 1, "decided_at": None}
            connection.execute(QUARANTINE.insert().values(**row | times, source="rents", state="pending"))


# --- over -----------------------------------------------------------------------------------------------------------------


def test_an_alert_is_active_until_it_is_no_longer_true(make: Make) -> None:
    """2.00 to 1.80 was told at 5 %: it holds to 1.95."""
    watch = make(CHEAPER)
    for price in ("2.00", "1.80", "1.80", "1.95", "1.96"):
        watch.look(price)
    assert watch.told()[0]["over_at"] is None
    watch.look("1.96")
    assert watch.told()[0]["over_at"] == watch.at


def test_an_alert_of_a_rule_that_is_switched_off_is_over(make: Make, tmp_path: Path) -> None:
    watch = make(CHEAPER)
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    off = watch_with(watch.db, tmp_path / "off", CHEAPER + "enabled = false\n")
    off.at = watch.at
    off.look("1.80")
    assert off.told()[0]["over_at"] == off.at


def test_news_grows_old(make: Make) -> None:
    watch = make(CHEAPER + "active_hours = 2\n")
    for price in ("2.00", "1.80", "1.80"):
        watch.look(price)
    fired = watch.at
    watch.minutes = 119
    watch.look("1.80")
    assert watch.told()[0]["over_at"] is None
    watch.minutes = 1
    watch.look("1.80")
    assert watch.told()[0]["over_at"] == watch.at == fired + timedelta(hours=2)
