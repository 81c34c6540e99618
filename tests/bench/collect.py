"""All sources collected side by side by the real collector, over real HTTP from upstreams that answer in 300 ms: 199 requests.

    python tests/bench/collect.py [--quick]

Every shipped source is switched on and read from an upstream of its host, as the tests do, with as many pages as make 199 requests. Wall
time is from the start to the last kept sweep, on as many threads as the daemon has. The floor is what no collector can beat: the longest
chain of requests that must come one after the other. A source asks one thing after another, and a host is asked two things at once at most
and no sooner than its spacing allows, so that a host with n requests takes (n - 1) x spacing + one latency, and a source with n requests
(n - 1) x the longer of spacing and latency + one latency. Caps are measured at the upstreams: requests at once, and those within any
minute. Fails where wall time is more than 1.3 times the floor, a cap is broken, a source fails, or the requests are not 199.

``--quick`` leaves the spacing out (not Vast's ten calls a minute, which are left out whole): the chains alone, in a few seconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from shipped import Serving, Shipped, host_of, shipped  # noqa: E402  the path is set above
from upstream import Upstream  # noqa: E402

from scrapers import azure, azure_tokens, digitalocean, gcp, linode, openrouter, primeintellect, scaleway, vultr  # noqa: E402
from scrapers.http import HostGate  # noqa: E402
from tracker.paths import config_dir  # noqa: E402
from tracker.service.opening import open_book  # noqa: E402
from tracker.sweeps.collect import Collector, collect_source, longest_first  # noqa: E402
from tracker.sweeps.turns import WORKERS  # noqa: E402
from tracker.world import World, load_world  # noqa: E402

LATENCY_S = 0.3
REQUESTS = 199
MOST_RATIO = 1.3
AT_ONCE = 2
JITTER_S = 0.1  # two requests that left a minute apart may arrive a little closer
QUIET = "vast"  # left out of the quick reading
# so many that all requests are REQUESTS: a new source takes its own from another's
PAGES = {
    "azure": 16,
    "azure_tokens": 8,
    "digitalocean": 9,
    "gcp": 20,
    "linode": 8,
    "openrouter": 12,
    "primeintellect": 12,
    "scaleway": 3,
    "vultr": 6,
}


def main() -> int:
    """Prints the readings; 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without the spacing between two requests to a host")
    quick = parser.parse_args().quick
    with tempfile.TemporaryDirectory() as folder, shipped(delay_s=LATENCY_S) as upstreams:
        more_pages(upstreams)
        with mock.patch.dict("os.environ", upstreams.keys()):
            spacing = {"host_spacing_s": 0} if quick else {}
            world = load_world(config_dir(), upstreams.write(Path(folder) / "user", fetch=spacing, **spacing))
            left_out = (QUIET,) if quick else ()
            wall_s, failed = collect(world, Path(folder), left_out)
        return judge(world, upstreams, wall_s, failed, quick)


def collect(world: World, folder: Path, left_out: tuple[str, ...]) -> tuple[float, list[str]]:
    """Seconds until every sweep was kept, and what failed."""
    now = datetime.now(UTC)
    db = open_book(world, folder, now)
    collector = Collector(world=world, db=db, now=lambda: now, gate=HostGate(monotonic=monotonic))
    chosen = [source for source in longest_first(world.config.sources.values()) if source.id not in left_out]
    start = monotonic()
    with ThreadPoolExecutor(WORKERS) as pool:
        reports = list(pool.map(lambda source: collect_source(collector, source), chosen))
    seconds = monotonic() - start
    db.dispose()
    return seconds, [f"{report.source}: {report.error}" for report in reports if report is not None and report.status == "failed"]


# --- readings -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What one host was asked, and how fast it may be asked."""

    name: str
    upstream: Upstream
    spacing_s: float
    chains: tuple[int, ...]  # requests of each of its sources

    @property
    def floor_s(self) -> float:
        """The time its requests take at the least."""
        by_host = (len(self.upstream.seen) - 1) * self.spacing_s + LATENCY_S
        return max(by_host, *((n - 1) * max(self.spacing_s, LATENCY_S) + LATENCY_S for n in self.chains))

    @property
    def broken(self) -> list[str]:
        """Caps that were broken."""
        found = []
        if self.upstream.most_at_once > AT_ONCE:
            found.append(f"{self.name}: {self.upstream.most_at_once} requests at once")
        if self.spacing_s and (most := self.upstream.most_within(60 - JITTER_S)) > 60 / self.spacing_s + 1:
            found.append(f"{self.name}: {most} requests in a minute")
        return found


def judge(world: World, upstreams: Shipped, wall_s: float, failed: list[str], quick: bool) -> int:
    """Prints every host, the floor and the ratio; 1 where a goal is missed."""
    hosts = sorted(hosts_of(world, upstreams), key=lambda host: -host.floor_s)
    for host in hosts:
        up = host.upstream
        print(
            f"{host.name:48} {len(up.seen):3} requests, {up.most_at_once} at once, {up.most_within(60 - JITTER_S):2} a minute at most, "
            f"{host.spacing_s:g} s apart, floor {host.floor_s:5.1f} s"
        )
    requests, floor_s = sum(len(host.upstream.seen) for host in hosts), hosts[0].floor_s
    ratio = wall_s / floor_s
    print(f"{requests} requests, one after the other {requests * LATENCY_S:.1f} s without any spacing")
    print(f"wall {wall_s:.2f} s, floor {floor_s:.2f} s ({hosts[0].name}), ratio {ratio:.3f} (at most {MOST_RATIO})")
    broken = [line for host in hosts for line in host.broken]
    for line in (*broken, *failed):
        print(f"failed: {line}")
    if not broken:
        print("no cap broken")
    good = ratio <= MOST_RATIO and not broken and not failed and (quick or requests == REQUESTS)
    return 0 if good else 1


def hosts_of(world: World, upstreams: Shipped) -> list[Host]:
    """Every host with its sources; a source's requests are told apart by its paths where two share a host."""
    found = []
    for name, upstream in upstreams.hosts.items():
        sources = [source for source in upstreams.tables if host_of(upstreams.tables[source]) == name]
        settings = [world.config.sources[source].settings for source in sources]
        default = world.settings.fetch.host_spacing_s
        spacing = min(default if own.host_spacing_s is None else own.host_spacing_s for own in settings)
        chain = len(upstream.seen) if len(sources) == 1 else -(-len(upstream.seen) // len(sources))
        if upstream.seen:
            found.append(Host(name=name, upstream=upstream, spacing_s=spacing, chains=(chain,)))
    return found


# --- more pages -----------------------------------------------------------------------------------------------------------


def more_pages(upstreams: Shipped) -> None:
    """Serve more pages of the sources that page."""
    for name, pages in PAGES.items():
        PAGERS[name](upstreams.served[name], pages)


def _json(at: Serving, file: str) -> dict[str, Any]:
    return dict(json.loads(at.read(file)))


def _azure(at: Serving, pages: int) -> None:
    body = _json(at, "prices_1.json" if at.name == "azure" else "page1.json")
    wanted = azure.FILTER if at.name == "azure" else str(azure_tokens.QUERY["$filter"])
    for page in range(1, pages + 1):
        following = f"{at.upstream.url}{azure.PATH}?$skip={page * 1000}&list={at.name}" if page < pages else None
        query = {"$filter": wanted} if page == 1 else {"$skip": str((page - 1) * 1000), "list": at.name}
        at.add(azure.PATH, {**body, "NextPageLink": following}, query=query)


def _gcp(at: Serving, pages: int) -> None:
    body = _json(at, "skus.json")
    for page in range(1, pages + 1):
        query = {"pageSize": "5000", "currencyCode": "USD"} | ({} if page == 1 else {"pageToken": f"t{page}"})
        at.add(gcp.PATH, {**body, "nextPageToken": f"t{page + 1}" if page < pages else ""}, query=query)
    at.add(gcp.PATH, {**_json(at, "skus_2.json"), "nextPageToken": ""}, query={**query})


def _digitalocean(at: Serving, pages: int) -> None:
    for page in range(1, pages + 1):
        body = _json(at, "sizes.json" if page == 1 else "sizes_2.json")
        links = {"pages": {"next": "there"}} if page < pages else {}
        at.add(digitalocean.PATH, {**body, "links": links}, query={"per_page": "200", "page": str(page)})


def _linode(at: Serving, pages: int) -> None:
    body = {**_json(at, "types.json"), "pages": pages}
    for page in range(1, pages + 1):
        at.add(linode.PATH, body, query={"page": str(page), "page_size": "500"})


def _openrouter(at: Serving, pages: int) -> None:
    body = _json(at, "body.json")
    for page in range(1, pages + 1):
        following = f"{openrouter.PATH}?offset={page}" if page < pages else None
        at.add(openrouter.PATH, {**body, "links": {"next": following}}, query={} if page == 1 else {"offset": str(page - 1)})


def _primeintellect(at: Serving, pages: int) -> None:
    body = {**_json(at, "gpus.json"), "totalCount": pages * primeintellect.PAGE_SIZE}
    for page in range(1, pages + 1):
        at.add(primeintellect.PATH, body, query={"page": str(page), "page_size": "100"})


def _scaleway(at: Serving, pages: int) -> None:
    for zone in scaleway.ZONES:
        for path, body in ((scaleway.PATH, "products_1.json"), (scaleway.STOCK_PATH, "availability_1.json")):
            address = path.format(zone=zone)
            for page in range(1, pages + 1):
                link = {"Link": f'<{address}?page={page + 1}>; rel="next"'} if page < pages else {}
                at.add(address, at.read(body), query={"page": str(page), "per_page": "50"}, headers=link)


def _vultr(at: Serving, pages: int) -> None:
    for (path, _), file in zip(vultr.LISTS, ("plans.json", "plans_metal.json"), strict=True):
        body = _json(at, file)
        for page in range(1, pages + 1):
            following = {"links": {"next": f"c{page + 1}" if page < pages else ""}}
            asked = {"per_page": "500"} | ({"type": "all"} if path == vultr.LISTS[0][0] else {})
            at.add(path, {**body, "meta": following}, query=asked | ({} if page == 1 else {"cursor": f"c{page}"}))


PAGERS: Mapping[str, Callable[[Serving, int], None]] = {
    "azure": _azure,
    "azure_tokens": _azure,
    "digitalocean": _digitalocean,
    "gcp": _gcp,
    "linode": _linode,
    "openrouter": _openrouter,
    "primeintellect": _primeintellect,
    "scaleway": _scaleway,
    "vultr": _vultr,
}

if __name__ == "__main__":
    sys.exit(main())
