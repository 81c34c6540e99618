"""Prices of several clouds from the database dump of Spare Cores, no key: off unless you switch it on. Docs: https://github.com/SpareCores/
sc-crawler (table_bases.py of 0.10.2) and the README of the Python package sparecores-data 0.5.1 (read 2026-11-29).

What a price means: for the whole server (all its GPUs) per hour running Linux, without VAT, in the currency the cloud prints; on demand, or
spot; of the cheapest zone of the region. Prices are kept as floats. Where the crawler knows no GPU model, the server type decides.

The licence of the data is its own business and has changed: the dump states it in the table ``_metadata``. What states none is not read.

The dump is SQL text, compressed to a tenth, of a gigabyte and more: it is read line by line and only servers with a GPU and their prices
are kept. Tables come in the order servers, prices; columns are found by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial

from scrapers.contract import GpuQuote, Licence, LineClient, Page, Row, Tier
from scrapers.fields import BadRow, clean_name, clean_price, currency, each, layout_changed, name, require_page, with_quotes
from scrapers.sqldump import Tables, Value, row_of, rows
from scrapers.token_fields import FLOAT_DIGITS

SOURCE = "sparecores"
PATH = "/sc-data/0.10/sc-data-all.sql.xz"  # by major.minor of the crawler: 0.9 called the columns gpu_...
KEPT = ("_metadata", "region", "server", "server_price")
GPU = b"'GPU'"  # accelerator_type
PROVIDERS: Mapping[str, str] = {  # theirs to ours
    "alicloud": "alicloud",
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "hcloud": "hetzner",
    "ovh": "ovhcloud",
    "upcloud": "upcloud",
    "vultr": "vultr",
}
TIERS: Mapping[Value, Tier] = {"ONDEMAND": "on_demand", "SPOT": "spot"}
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "_metadata": ("key", "value"),
    "region": ("vendor_id", "region_id", "api_reference"),
    "server": ("vendor_id", "server_id", "api_reference", "accelerator_count", "accelerator_memory_min", "accelerator_model", "status"),
    "server_price": ("vendor_id", "region_id", "server_id", "operating_system", "allocation", "unit", "price", "price_upfront",
                     "currency", "status"),
}  # fmt: skip
Record = Mapping[str, Value]
MIB_PER_GIB = Decimal(1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLines:
    """The lines of a dump about servers with GPUs: they, their prices, all regions, what the dump says of itself, definitions."""

    packed: str = "xz"

    def reader(self) -> Callable[[bytes], bool]:
        """A fresh judge of one reading: prices follow the servers they are of."""
        return _Judge().keeps


class _Judge:
    """Remembers definitions and the ids of the servers that have passed."""

    def __init__(self) -> None:
        self._tables = Tables()
        self._servers: set[bytes] = set()

    def keeps(self, line: bytes) -> bool:
        """Whether a line, without its line break, is kept."""
        if line.startswith(b"INSERT INTO"):
            table = line[12:40].split(b" VALUES", 1)[0].strip(b'" ').decode("ascii", "replace")
            return table in KEPT and self._keeps_row(table, line)
        return self._tables.define(line[:300].decode("utf-8", "replace"))

    def _keeps_row(self, table: str, line: bytes) -> bool:
        if table == "server":
            if GPU not in line:
                return False
            self._servers.add(self._text(table, line))
        return table != "server_price" or self._text(table, line) in self._servers

    def _text(self, table: str, line: bytes) -> bytes:
        """The id of the server: the columns before it are texts."""
        columns, texts = self._tables.columns.get(table, []), line.split(b"'", 20)[1::2]
        at = columns.index("server_id") if "server_id" in columns else len(texts)
        return texts[at] if at < len(texts) else b""


def fetch(client: LineClient, secrets: Mapping[str, str]) -> list[Page]:
    """The kept lines of the dump."""
    return [client.get_lines(PATH, GpuLines())]


def parse(pages: Sequence[Page]) -> Iterator[Row]:
    """The licence, then one quote per GPU server, region and tier."""
    page = require_page(SOURCE, pages)
    tables, lines = Tables(), dict[str, list[str]]()
    for table, line in rows(page.text.split("\n"), tables):
        lines.setdefault(table, []).append(line)
    for table, needed in COLUMNS.items():
        missing = [column for column in needed if column not in tables.columns.get(table, [])]
        if missing:
            raise layout_changed(SOURCE, f'no column "{missing[0]}" in the table "{table}"')
    yield _licence(_records(lines.get("_metadata", []), tables.columns["_metadata"]))
    yield from with_quotes(SOURCE, _priced(lines, tables))


def _records(lines: Sequence[str], columns: Sequence[str]) -> list[Record]:
    """The rows that can be read."""
    found: list[Record] = []
    for line in lines:
        try:
            found.append(row_of(line, columns))
        except BadRow:
            continue
    return found


def _licence(records: Sequence[Record]) -> Licence:
    """What the dump says of itself; LayoutChanged where it states no licence: then nobody may use it."""
    said = {str(record["key"]): str(record["value"]) for record in records}
    try:
        told = {key: clean_name(said[key][:200], key) for key in ("license", "license_url", "publisher", "published_at") if said.get(key)}
        use = clean_name(said["additional_use_grant"][:200], "additional_use_grant") if said.get("additional_use_grant") else ""
    except BadRow as bad:
        raise layout_changed(SOURCE, f"expected a licence in _metadata, but {bad}") from bad
    if "license" not in told:
        raise layout_changed(SOURCE, "no license in _metadata, and data without one is not for use")
    return Licence(
        name=told["license"],
        url=told.get("license_url", ""),
        publisher=told.get("publisher", ""),
        published_at=told.get("published_at", ""),
        terms=use,
    )


def _priced(lines: Mapping[str, Sequence[str]], tables: Tables) -> Iterator[Row]:
    """What cannot be read, then the lowest price of each server, region and tier."""
    places = {(r["vendor_id"], r["region_id"]): r["api_reference"] for r in _records(lines.get("region", []), tables.columns["region"])}
    servers = {(r["vendor_id"], r["server_id"]): r for r in _records(lines.get("server", []), tables.columns["server"])}
    lowest: dict[tuple[str, str, str, Tier], GpuQuote] = {}
    read = partial(_price_rows, tables.columns["server_price"], places, servers)
    for row in each(lines.get("server_price", []), read):
        if isinstance(row, GpuQuote):
            key = (row.provider, row.region, row.sku, row.tier)
            lowest[key] = min(lowest.get(key, row), row, key=lambda quote: quote.price)
        else:
            yield row
    yield from (lowest[key] for key in sorted(lowest))


def _price_rows(
    columns: Sequence[str], places: Mapping[tuple[Value, Value], Value], servers: Mapping[tuple[Value, Value], Record], line: str
) -> Iterator[Row]:
    """The quote of one price; none for Windows, reservations and what cannot be ordered."""
    record = row_of(line, columns)
    server = servers.get((record["vendor_id"], record["server_id"]))
    if server is None:
        raise BadRow("server is not in the table of servers")
    if (
        record["allocation"] not in TIERS
        or record["operating_system"] != "Linux"
        or (record["status"], server["status"]) != ("ACTIVE",) * 2
    ):
        return
    if record["unit"] != "HOUR" or record["price_upfront"] not in (None, Decimal(0)):
        raise BadRow("price is not per hour alone")
    yield _quote(record, server, name({"region": places.get((record["vendor_id"], record["region_id"]))}, "region"))


def _quote(record: Record, server: Record, region: str) -> GpuQuote:
    provider, sku = PROVIDERS.get(str(record["vendor_id"])), name(server, "api_reference")
    gpus, memory, price = server["accelerator_count"], server["accelerator_memory_min"], record["price"]
    if provider is None:
        raise BadRow("vendor is not in the table of clouds")
    if not isinstance(gpus, Decimal) or not 0 < gpus <= 1024 or (gpus > 1 and gpus != int(gpus)):
        raise BadRow("accelerator_count is no count")
    if not isinstance(price, Decimal):
        raise BadRow("price is not a number")
    quote = GpuQuote(
        provider=provider,
        sku=sku,
        gpu=name(server, "accelerator_model") if server["accelerator_model"] else sku,
        gpu_count=max(1, int(gpus)),
        region=region,
        tier=TIERS[record["allocation"]],
        price=clean_price(FLOAT_DIGITS.plus(price), "price"),
        per="node_hour",
        currency=currency(record, "currency"),
        availability="listed",
        is_slice=gpus < 1,
    )
    whole = isinstance(memory, Decimal) and 0 < memory < 10_000_000
    return replace(quote, memory_gb=memory / MIB_PER_GIB) if whole and isinstance(memory, Decimal) else quote
