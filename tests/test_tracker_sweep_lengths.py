"""How long a sweep took, by a clock that was set by years meanwhile: the sweep is kept, and one of before the upgrade is no obstacle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from alembic import command
from sqlalchemy import Engine, text

from tracker.database.handle import alembic_config, migrate, reading, writing
from tracker.sweeps.store import SweepReport, record_sweep

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOST_MS = 2**31 - 1  # what four bytes hold
YEARS = timedelta(days=3653)


@pytest.mark.parametrize(("step", "took"), [(timedelta(seconds=2.5), 2_500), (YEARS, MOST_MS), (-YEARS, 0)])
def test_a_sweep_is_kept_however_far_the_clock_was_set_in_it(step: timedelta, took: int, empty: Engine) -> None:
    migrate(empty)
    record_sweep(empty, SweepReport(source="clouds", started_at=NOON, finished_at=NOON + step, status="ok"))
    with reading(empty) as connection:
        assert connection.execute(text("select took_ms from sweep")).scalar_one() == took


@pytest.mark.parametrize(
    ("ended", "took"), [("2026-03-01 12:00:02.5", 2_500), ("2036-03-01 12:00:00", MOST_MS), ("2016-03-01 12:00:00", 0)]
)
def test_such_a_sweep_of_before_the_upgrade_is_taken_over(ended: str, took: int, empty: Engine) -> None:
    command.upgrade(alembic_config(empty), "0013")
    row = (
        "insert into sweep (source, at, recorded_at, started_at, finished_at, status, complete, rows, changed, skipped, bytes, input_hash, "
        f"error) values ('clouds', 1000, '{ended}', '2026-03-01 12:00:00', '{ended}', 'ok', true, 1, 1, '{{}}', 9, '', '')"
    )
    with writing(empty) as connection:
        connection.execute(text(row))
    migrate(empty)
    with reading(empty) as connection:
        assert connection.execute(text("select took_ms from sweep")).scalar_one() == took
