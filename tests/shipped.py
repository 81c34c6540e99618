"""Every shipped source at local upstreams, one for each of their hosts, answering with the recorded normal case.

What a recording leaves out of what its scraper asks for (another zone, another provider's file) answers too, from the same recording.
"""

from __future__ import annotations

import contextlib
import io
import json
import lzma
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from upstream import Upstream

from scrapers import aws, azure, azure_tokens, gpuhunt, openrouter_endpoints, scaleway, skypilot, sparecores

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "tests/recorded"
POSTED = ("runpod", "vast", "cloudrift")
REAL = {b"north-pro": b"deepseek-v4-pro", b"north-flash": b"deepseek-v4-flash", b"northwind/kimi-k3.1-pro": b"moonshot/kimi-k3.1-pro",
        b"eastwind": b"together"}  # fmt: skip
CASES = {"moonshot_cn": "cn_normal"}  # of modules that read two sources
KEY = "AKIDEXAMPLE:k-never-shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """Upstreams by host, and the tables of sources.toml that point at them."""

    hosts: Mapping[str, Upstream]
    tables: Mapping[str, Mapping[str, Any]]
    served: Mapping[str, Serving]

    def url(self, source: str) -> str:
        """Where a source is read instead."""
        return self.hosts[host_of(self.tables[source])].url + ("/{region}" if self.tables[source].get("regions") else "")

    def keys(self) -> dict[str, str]:
        """A key for every variable that a source names."""
        return {table["key_env"]: KEY for table in self.tables.values() if table.get("key_env")}

    def write(self, folder: Path, *, fetch: Mapping[str, Any] | None = None, **changes: Any) -> Path:
        """A user's configuration with every source switched on; ``changes`` are keys of every table, ``fetch`` those of [fetch]."""
        folder.mkdir(parents=True, exist_ok=True)
        tables = {name: {**table, "base_url": self.url(name), "enabled": True, **changes} for name, table in self.tables.items()}
        (folder / "sources.toml").write_text("\n".join(_table(name, table) for name, table in tables.items()), encoding="utf-8")
        shipped = tomllib.loads((ROOT / "config/tracker.toml").read_text(encoding="utf-8"))["fetch"]
        (folder / "tracker.toml").write_text(_table("fetch", {**shipped, **(fetch or {})}), encoding="utf-8")
        return folder


def _table(name: str, table: Mapping[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())


def host_of(table: Mapping[str, Any]) -> str:
    """The host of a table of sources.toml."""
    return str(urlsplit(table["base_url"]).hostname)


@contextlib.contextmanager
def shipped(**how: Any) -> Iterator[Shipped]:
    """The upstreams; ``how`` are fields of every route, such as ``delay_s``."""
    tables = tomllib.loads((ROOT / "config/sources.toml").read_text(encoding="utf-8"))
    with contextlib.ExitStack() as stack:
        hosts = {host: stack.enter_context(Upstream()) for host in dict.fromkeys(host_of(table) for table in tables.values())}
        served = {name: Serving(name, table, hosts[host_of(table)], how) for name, table in tables.items()}
        for one in served.values():
            one.serve()
        yield Shipped(hosts=hosts, tables=tables, served=served)


@dataclass(frozen=True, slots=True)
class Serving:
    """One source at its upstream."""

    name: str
    table: Mapping[str, Any]
    upstream: Upstream
    how: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Its recorded normal case."""
        own = RECORDED / self.name / "normal"
        return own if own.exists() else RECORDED / self.table.get("module", self.name) / CASES.get(self.name, "normal")

    def serve(self) -> None:
        """The recording, what it leaves out, and robots.txt."""
        for page in json.loads((self.folder / "pages.json").read_text(encoding="utf-8")):
            url = urlsplit(page["url"])
            query = dict(parse_qsl(url.query))
            self.add(url.path, self.read(page["file"]), query=QUERIES.get(self.name, _same)(query), headers=page.get("headers", {}))
        if self.name in GAPS:
            GAPS[self.name](self)
        if self.table.get("robots"):
            self.upstream.add("/robots.txt", "User-agent: *\nAllow: /\n", **self.how)

    def expected(self) -> list[dict[str, Any]]:
        """The rows written beside the recording, with the names that are served."""
        return list(json.loads(self.real((self.folder / "expected.json").read_bytes()))["rows"])

    @staticmethod
    def real(body: bytes) -> bytes:
        """Names that mean a model of ours in the place of made-up ones."""
        for made_up, real in REAL.items():
            body = body.replace(made_up, real)
        return body

    def add(self, path: str, body: Any, **how: Any) -> None:
        """Answer there."""
        self.upstream.add(path, body, method="POST" if self.name in POSTED else "GET", **self.how, **how)

    def read(self, file: str) -> bytes:
        """A recorded body; links to the host lead to the upstream."""
        body = self.real((self.folder / file).read_bytes())
        if file.endswith(".json"):
            body = re.sub(rf"https://{re.escape(host_of(self.table))}(:443)?".encode(), self.upstream.url.encode(), body)
            body = body.replace(b"$skip=1000", f"$skip=1000&list={self.name}".encode())  # two lists share one host and path
        return body


def _same(query: dict[str, str]) -> dict[str, str]:
    return query


def _azure(wanted: str) -> Callable[[dict[str, str]], dict[str, str]]:
    """The first page by its filter, the second by its number."""
    name = "azure" if wanted == azure.FILTER else "azure_tokens"
    return lambda query: {"$skip": "1000", "list": name} if "$skip" in query else {"$filter": wanted}


QUERIES: Mapping[str, Callable[[dict[str, str]], dict[str, str]]] = {
    "azure": _azure(azure.FILTER),
    "azure_tokens": _azure(str(azure_tokens.QUERY["$filter"])),
}


def _spot_history(at: Serving) -> None:
    """The two pages of every region, below its name: here all regions have one host."""
    for region in at.table["regions"]:
        for file, query in (("spot_1.xml", {}), ("spot_2.xml", {"NextToken": "AAHc/NbW+Vluv="})):
            at.add(f"/{region}/", at.read(file).replace(b"us-east-1", region.encode()), query=query)


def _scaleway(at: Serving) -> None:
    for path in (scaleway.PATH, scaleway.STOCK_PATH):
        at.add(path.format(zone="fr-par-1"), {"servers": {}})


def _vast(at: Serving) -> None:
    """The recorded asks by as many hosts as make a price."""
    offers = json.loads(at.read("bundles_1.json"))["offers"]
    found = [{**offer, "host_id": host, "machine_id": host} for offer in offers for host in range(1, 7)]
    at.add("/api/v0/bundles/", {"offers": found})


def _gpuhunt(at: Serving) -> None:
    with zipfile.ZipFile(io.BytesIO(at.read("lambdalabs.zip"))) as archive:
        table = archive.read("lambdalabs.csv")
    for provider in gpuhunt.PROVIDERS:
        at.add(f"/v3/{provider}/version", b"20261129-1234\n")
        if not (at.folder / f"{provider}.zip").exists():
            body = io.BytesIO()
            with zipfile.ZipFile(body, "w") as archive:
                archive.writestr(f"{provider}.csv", table)
            at.add(f"/v3/{provider}/20261129-1234/catalog.zip", body.getvalue())


def _aws(at: Serving) -> None:
    for region in {*aws.REGIONS} - {"us-east-1", "eu-north-1"}:
        at.add(aws.PATH.format(region=region), at.read("us_east_1.csv").replace(b"us-east-1", region.encode()))


def _sparecores(at: Serving) -> None:
    at.add(sparecores.PATH, lzma.compress(at.read("dump.sql")))


def _skypilot(at: Serving) -> None:
    for cloud in {*skypilot.CLOUDS} - {"aws", "oci"}:
        at.add(skypilot.PATH.format(cloud=cloud), at.read("aws.csv"))


def _endpoints(at: Serving) -> None:
    for model in ("moonshotai/kimi-k3.1-pro",):
        at.add(openrouter_endpoints.PATH.format(model=model), at.read("k3.json").replace(b"moonshotai/kimi-k3", model.encode()))


GAPS: Mapping[str, Callable[[Serving], None]] = {
    "aws_spot_history": _spot_history,
    "scaleway": _scaleway,
    "vast": _vast,
    "gpuhunt": _gpuhunt,
    "aws": _aws,
    "skypilot": _skypilot,
    "sparecores": _sparecores,
    "openrouter_endpoints": _endpoints,
}
