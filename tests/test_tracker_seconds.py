"""Moments that were kept in milliseconds are whole seconds after the upgrade, whatever schema they come from, and mean the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from alembic import command
from databases import Postgres
from sqlalchemy import Engine, text

from tracker.database.handle import alembic_config, migrate, open_database, reading, writing
from tracker.database.rows import OfferRow, identity

RELEASED = [f"{number:04}" for number in range(1, 13)]  # every schema that kept milliseconds
T = 1_796_083_200  # 2026-12-01: date -u -d 2026-12-01 +%s
MS = T * 1000
STAMP = "'2026-11-30 23:59:59.750000'"


def write(db: Engine, *statements: str) -> None:
    with writing(db) as connection:
        for statement in statements:
            connection.execute(text(statement.replace(":", "\\:")))


def rows(db: Engine, query: str) -> list[tuple[Any, ...]]:
    with reading(db) as connection:
        return [tuple(row) for row in connection.execute(text(query))]


def dated(valid_from: int | None) -> OfferRow:
    return OfferRow(
        provider="vendor, [x]", sku="H200", region="", gpu="nvidia-h200-sxm-141", gpu_count=1, tier="on_demand", trust="datacenter",
        currency="USD", price=3, valid_from=valid_from,
    )  # fmt: skip


def an_offer(id_: int, valid_from: int | None) -> str:
    key = identity("runpod", dated(valid_from)).replace("'", "''")
    return (
        "insert into offer (id, key, source, origin, provider, sku, region, gpu, gpu_count, tier, term_months, trust, currency, "
        f"valid_from, is_slice, price_kind, interconnect, source_url) values ({id_}, '{key}', 'runpod', 'runpod', 'vendor, [x]', 'H200', "
        f"'', 'nvidia-h200-sxm-141', 1, 'on_demand', 0, 'datacenter', 'USD', {valid_from or 'null'}, false, 'list', 'unknown', 'https://x')"
    )


def a_sweep(at: int, digest: str = "0f" * 32) -> str:
    return (
        "insert into sweep (source, at, recorded_at, started_at, finished_at, status, complete, rows, changed, skipped, bytes, input_hash, "
        f"error) values ('runpod', {at}, {STAMP}, '2026-11-30 23:59:58.250000', {STAMP}, 'ok', true, 1, 1, '{{}}', 9, '{digest}', '')"
    )


def a_point(offer: int, at: int, price: int) -> str:
    return f"insert into offer_point (offer_id, at, price, availability) values ({offer}, {at}, {price}, 0)"


@pytest.mark.parametrize("schema", RELEASED)
def test_data_of_every_released_schema_is_there_in_seconds(empty: Engine, schema: str) -> None:
    command.upgrade(alembic_config(empty), schema)
    rate = (
        "insert into rate (id, key, source, origin, provider, source_model, model, sku, region, currency, min_prompt_tokens, "
        f"tier_inclusive, hours_utc, weekdays, valid_from, source_url) values (3, '[\"api\",{MS}]', 'api', 'api', 'api', 'M', 'm', "
        f"'standard', '', 'USD', 0, false, '', '', {MS}, '')"
    )
    rate_point = f"insert into rate_point (rate_id, at, gone, input, valid_to) values (3, {MS + 999}, false, 7, {MS + 86_400_000})"
    unseen = f"insert into unseen (kind, target, since, until, last_seen, why) values ('offer', 7, {MS + 1}, null, {MS - 1}, 'missed')"
    statistic = f"insert into statistic (offer_id, at, least, p10, median, asks, hosts) values (7, {MS}, 1, 2, 3, 4, 5)"
    write(empty, a_sweep(MS), an_offer(7, None), an_offer(8, MS), a_point(7, MS, 3_590_000_000), a_point(7, MS + 3_600_000, 2_000_000_000))
    write(empty, rate, rate_point, unseen, statistic)
    migrate(empty)
    assert rows(empty, "select at, lag_ms, took_ms, changed from sweep") == [(T, -250, 1500, 1)]
    assert [bytes(digest) for (digest,) in rows(empty, "select input_hash from sweep")] == [b"\x0f" * 8]
    assert rows(empty, "select offer_id, at, price from offer_point order by at") == [(7, T, 3_590_000_000), (7, T + 3600, 2_000_000_000)]
    assert rows(empty, "select at, input, valid_to from rate_point") == [(T, 7, T + 86_400)]
    assert rows(empty, "select valid_from, key from rate") == [(T, f'["api",{T}]')]
    keys = [(7, None, identity("runpod", dated(None))), (8, T, identity("runpod", dated(T)))]
    assert rows(empty, "select id, valid_from, key from offer order by id") == keys
    assert rows(empty, "select since, until, last_seen from unseen") == [(T, None, T - 1)]
    assert rows(empty, "select at, median from statistic") == [(T, 3)]
    command.check(alembic_config(empty))
    command.downgrade(alembic_config(empty), schema)
    ended = rows(empty, "select cast(started_at as text), cast(finished_at as text), input_hash from sweep")
    [(begun, end, digest)] = ended
    assert (str(begun)[11:21], str(end)[11:21], digest) == ("23:59:58.2", "23:59:59.7", "0f" * 8)
    assert rows(empty, "select at, price from offer_point order by at") == [(MS, 3_590_000_000), (MS + 3_600_000, 2_000_000_000)]
    assert rows(empty, "select key from offer where id = 8") == [(identity("runpod", dated(MS)),)]


def test_of_two_in_one_second_the_later_one_stays_and_no_sweep_is_lost(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0012")
    write(empty, an_offer(7, None), *(a_point(7, MS + ms, price) for ms, price in ((0, 1), (400, 2), (999, 3), (1000, 4))))
    write(empty, *(a_sweep(MS + ms, digest) for ms, digest in ((0, "0a"), (500, "0b"), (1000, "0c"), (60_000, "0d"))))
    backdated = "insert into backdated (kind, target, at, known_at) values ('offer', 7, {}, {})"
    write(empty, backdated.format(MS + 400, MS + 9000), backdated.format(MS + 1000, MS + 9000))
    for until, was in ((MS + 1, "first"), (MS + 2, "second"), (MS + 5000, "third")):
        write(empty, f"insert into reworded (kind, target, until, was) values ('offer', 7, {until}, '{was}')")
    migrate(empty)
    assert rows(empty, "select at, price from offer_point order by at") == [(T, 3), (T + 1, 4)]
    found = [(at, bytes(digest)) for at, digest in rows(empty, "select at, input_hash from sweep order by at")]
    assert found == [(T, b"\x0a"), (T + 1, b"\x0b"), (T + 2, b"\x0c"), (T + 60, b"\x0d")]
    assert rows(empty, "select at, known_at from backdated") == [(T + 1, T + 9)]  # the point that stays at T was known then
    assert rows(empty, "select until, was from reworded order by until") == [(T, "first"), (T + 5, "third")]


def test_a_price_that_waits_keeps_its_identity(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0012")
    key, row = identity("runpod", dated(MS)), json.dumps({"provider": "vendor, [x]", "valid_from": MS, "valid_to": None, "price": 3})
    with writing(empty) as connection:
        statement = (
            'insert into quarantine (kind, source, key, subject, old, new, "row", reason, release, first_seen, last_seen, last_at, sweeps, '
            f"state, decided_by) values (:kind, 'runpod', :key, 's', 'null', '{{}}', :row, 'r', 'hand', {STAMP}, {STAMP}, {MS + 5}, 1, "
            "'pending', '')"
        )
        connection.execute(text(statement), {"kind": "offer", "key": key, "row": row})
        connection.execute(text(statement), {"kind": "sweep", "key": "most prices moved,123]", "row": ""})
    migrate(empty)
    found = rows(empty, 'select key, "row", last_at from quarantine order by id')
    assert [(key, last_at) for key, _, last_at in found] == [(identity("runpod", dated(T)), T), ("most prices moved,123]", T)]
    assert json.loads(found[0][1]) == {"provider": "vendor, [x]", "valid_from": T, "valid_to": None, "price": 3}


def test_figures_a_day_are_worked_out_anew_and_what_was_pruned_is_not(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0012")
    group = "insert into rollup_group (id, source, provider, gpu, gpu_count, tier, currency) values (1, 's', 'p', 'g', 1, 'spot', 'USD')"
    day = "insert into rollup_day (group_id, day, least, median, most, offers, held_ms) values (1, 20000, 1, 2, 3, 4, 7200999)"
    states = [("pruned", MS + 1), ("s", MS + 5), ("", MS + 5)]
    write(empty, group, day)
    for source, until in states:
        write(empty, f"insert into rollup_state (source, until, sweep, offer, basis) values ('{source}', {until}, 4, 5, 'x')")
    migrate(empty)
    assert rows(empty, "select held_s from rollup_day") == [(7200,)]
    assert rows(empty, "select source, until, basis from rollup_state order by source") == [("pruned", T + 1, "x"), ("s", T, "")]


def test_the_views_tell_the_same_times_before_and_after(empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0012")
    write(empty, an_offer(7, None), a_point(7, MS, 3_590_000_000), a_point(7, MS + 3_600_000, 2_000_000_000), a_sweep(MS))
    decision = (
        f"insert into decision (model, workload, policy, at, sweep, fresh, reason, provider, usd_per_hour, seen_at) "
        f"values ('m', 'w', 'p', {MS}, 1, true, 'r', 'vendor', 5, '2026-12-01 00:00:00')"
    )
    write(empty, decision)
    history, point = "select listed_from, listed_to, price_per_hour from v_price_history order by listed_from", "select * from v_breakeven"
    cheapest = "select decided_at, seen_at, usd_per_hour from v_cheapest"
    before = [rows(empty, query) for query in (history, point, cheapest)]
    assert str(before[0][0][0]).startswith("2026-12-01")
    migrate(empty)
    assert [rows(empty, query) for query in (history, point, cheapest)] == before


@pytest.mark.real
def test_who_may_read_the_views_still_may(postgres: Postgres) -> None:
    name = postgres.make()
    db = open_database(postgres.url(name))
    command.upgrade(alembic_config(db), "0012")
    postgres.psql(name, "create role watcher login", "grant select on v_price_history, v_cheapest to watcher")
    migrate(db)
    db.dispose()
    assert postgres.psql(name, "select count(*) from v_price_history", user="watcher") == [("0",)]
    assert postgres.psql(name, "select count(*) from v_cheapest", user="watcher") == [("0",)]
