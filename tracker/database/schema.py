"""The tables as the program reads and writes them: columns by name and kind, without the models that migrations are made from.

Building the models takes a tenth of a second and 10 MB, and nothing here makes an instance of one. A test holds both equal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Date, Integer, LargeBinary, MetaData, SmallInteger, String, Table, Text
from sqlalchemy.types import TypeEngine

from tracker.database.column_types import Hex, Moment

RENT_SCALE = 10**9
RATE_SCALE = 10**12
FX_SCALE = 10**9
MAX_SCALED = 2**63 - 1

KINDS: Mapping[str, type[TypeEngine[Any]]] = {
    "bigint": BigInteger, "bool": Boolean, "bytes": LargeBinary, "date": Date, "hex": Hex, "int": Integer, "moment": Moment,
    "smallint": SmallInteger, "str": String, "text": Text,
}  # fmt: skip
# A column of the key is marked: + where the database numbers it, * else.
COLUMNS = """
sweep: +id int, source str, at bigint, lag_ms bigint, took_ms int, status str, complete bool, rows int, changed int, skipped text,
  warned text, quarantined int, conflicts int, bytes bigint, input_hash hex, error text
page: *source str, *url str, etag str, last_modified str, headers text, body bytes, fetched_at moment
body: *sha256 str, size bigint, stored bigint, zstd bytes
kept_sweep: *first_sweep int, last_sweep int, source str, last_read bigint
kept_page: *first_sweep int, *place int, sha256 str, size bigint, url text, headers text, fetched_at moment
offer: +id int, key str, source str, origin str, provider str, sku str, region str, gpu str, gpu_count int, tier str, term_months int,
  trust str, currency str, valid_from bigint, is_slice bool, price_kind str, interconnect str, source_url str
offer_point: *offer_id int, *at bigint, price bigint, availability smallint, max_gpu_count smallint
rate: +id int, key str, source str, origin str, provider str, source_model str, model str, sku str, region str, currency str,
  min_prompt_tokens int, tier_inclusive bool, hours_utc str, weekdays str, valid_from bigint, source_url str
rate_point: *rate_id int, *at bigint, gone bool, input bigint, cache_read bigint, cache_write_5m bigint, cache_write_1h bigint, output
  bigint, valid_to bigint
backdated: *kind str, *target int, *at bigint, known_at bigint
reworded: *kind str, *target int, *until bigint, was text
unseen: *kind str, *target int, *since bigint, until bigint, last_seen bigint, why str
quarantine: +id int, kind str, source str, key text, subject text, old text, new text, row text, reason text, release str, first_seen
  moment, last_seen moment, last_at bigint, sweeps int, state str, decided_at moment, decided_by str
statistic: *offer_id int, *at bigint, least bigint, p10 bigint, median bigint, asks int, hosts int
unmapped: *source str, *kind str, *name str, first_seen moment, last_seen moment
fx: *currency str, *day date, rate bigint, origin str, known_at bigint
alert: +id int, key str, rule str, kind str, subject str, fired_at moment, held_until moment, digest str, over_at moment, acked_at
  moment, acked_by str, body text
alert_delivery: *alert_id int, *route str, state str, attempts int, created_at moment, claimed_until moment, delivered_at moment,
  last_error text
alert_state: *rule str, *subject str, judged_at moment, body text
alert_silence: +id int, rule str, subject str, until moment, created_at moment, created_by str
source_lease: *source str, owner str, fence bigint, claimed_at moment, lease_until moment, next_due moment, max_age_ms bigint
source_licence: *source str, *since bigint, name str, url str, publisher str, published_at str, terms str
decision: *model str, *workload str, *policy str, *at bigint, sweep int, fresh bool, reason text, source str, provider str, sku str,
  region str, tier str, currency str, native_per_hour bigint, offer_usd_per_hour bigint, gpu str, gpu_count int, machines int,
  weight_format str, usd_per_hour bigint, seen_at moment, source_url str, api_source str, api_provider str, api_sku str, api_region str,
  api_currency str, api_prices text, api_usd_per_mtok bigint, api_usd_per_month bigint, api_seen_at moment, api_source_url str,
  break_even_status str, break_even_tokens bigint, break_even_utilization bigint, replicas bigint, self_host_usd_per_month bigint,
  verdict str
rollup_group: +id int, source str, provider str, gpu str, gpu_count int, tier str, currency str
rollup_day: *group_id int, *day int, least bigint, median bigint, most bigint, offers int, held_s bigint
rollup_market: +id int, gpu str, gpu_count int, tier str
rollup_least: *market_id int, *day int, *currency str, least bigint, group_id int
rollup_model: *model str, *workload str, *policy str, *day int, provider str, sku str, region str, tier str, gpu str, gpu_count int,
  weight_format str, held_s bigint, decided_s bigint, least bigint, median bigint, most bigint, setups int
rollup_state: *source str, until bigint, sweep int, offer int, basis str
"""


class _Tables(Mapping[str, Table]):
    """Tables by name, each built when it is first asked for."""

    def __init__(self, columns: str) -> None:
        self._metadata = MetaData()
        self._building = threading.Lock()  # modules are imported on several threads
        whole = columns.replace("\n  ", " ").strip().splitlines()
        self._lines = {name: line for name, _, line in (text.partition(": ") for text in whole)}

    def __getitem__(self, name: str) -> Table:
        with self._building:
            if name not in self._metadata.tables:
                Table(name, self._metadata, *(_column(*words.split()) for words in self._lines[name].split(", ")))
            return self._metadata.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


def _column(name: str, kind: str) -> Column[Any]:
    mark = name[0] if name[0] in "+*" else ""
    return Column(name.removeprefix(mark), KINDS[kind](), primary_key=bool(mark), autoincrement=mark == "+")


TABLES: Mapping[str, Table] = _Tables(COLUMNS)
