"""A user's configuration that points the six sources at a local upstream, and upstreams that serve recordings through it."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from repository import ROOT
from upstream import Upstream

from scrapers import coreweave, ecb, genai_prices, openrouter, runpod, scaleway
from scrapers.scaleway import ZONES

RECORDED = Path(__file__).parent / "recorded"
CONFIG = Path(__file__).parents[1] / "config"
SIX = {"runpod": "rent", "scaleway": "rent", "coreweave": "rent", "genai_prices": "token", "openrouter": "token", "ecb": "fx"}


def sources_toml(base_url: str, sources: Iterable[str] = SIX, *, interval_minutes: float = 15, max_age_hours: float = 6) -> str:
    """A sources.toml whose tables all point at ``base_url``; every other shipped source is off."""
    shipped = tomllib.loads((CONFIG / "sources.toml").read_text(encoding="utf-8"))
    off = [
        f'[{name}]\nkind = "{table["kind"]}"\nmodule = "{table.get("module", "")}"\nbase_url = "{base_url}"\n'
        "interval_minutes = 60\nmax_age_hours = 1\nenabled = false\n"
        for name, table in shipped.items()
        if name not in sources
    ]
    tables = off + [
        f'[{name}]\nkind = "{SIX[name]}"\nbase_url = "{base_url}"\ninterval_minutes = {interval_minutes}\nmax_age_hours = {max_age_hours}\n'
        f"robots = {'true' if name == 'coreweave' else 'false'}\n"
        for name in sources
    ]
    return "\n".join(tables)


def write_user_config(folder: Path, base_url: str, *, tracker: str = "", **how: Any) -> Path:
    """A user's configuration directory: sources at ``base_url``, fetches that give up soon."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sources.toml").write_text(sources_toml(base_url, **how), encoding="utf-8")
    fetch = '[fetch]\nuser_agent = "breakeven-tests"\ndeadline_s = 20\nread_timeout_s = 5\nattempts = 2\nhost_spacing_s = 0\n'
    (folder / "tracker.toml").write_text(tracker or fetch, encoding="utf-8")
    return folder


ALSO = """
[[track.also]]
workload = "chat-3-to-1"

[[track.also]]
name = "clouds"
providers = ["coreweave", "scaleway"]

"""
ASKED = [("agent-turns", "studiotv"), ("chat-3-to-1", "studiotv"), ("agent-turns", "studiotv@clouds")]


def asking() -> str:
    """The shipped ``[track]`` of tracker.toml with two questions more: the workloads and policies of ``ASKED``."""
    text = (ROOT / "config" / "tracker.toml").read_text(encoding="utf-8")
    return text[text.index("[track]") : text.index("[fetch]")] + ALSO


def serve_case(upstream: Upstream, source: str, case: str = "normal") -> None:
    """Serve a recorded case of ours at the addresses its scraper asks for."""
    folder = RECORDED / source / case
    for page in json.loads((folder / "pages.json").read_text(encoding="utf-8")):
        path, _, query = re.sub(r"^https?://[^/]+", "", page["url"]).partition("?")
        headers = dict(page.get("headers", {}))
        pairs = dict(part.split("=", 1) for part in query.split("&") if part)
        method = "POST" if source == "runpod" else "GET"
        upstream.add(path, (folder / page["file"]).read_bytes(), query=pairs, headers=headers, method=method)
    upstream.robots("User-agent: *\nAllow: /\n")


def serve_six(upstream: Upstream) -> None:
    """Our own recorded normal case of every source; zones and pages nobody recorded are empty."""
    for zone in ZONES:
        upstream.add(scaleway.PATH.format(zone=zone), {"servers": {}})
        upstream.add(scaleway.STOCK_PATH.format(zone=zone), {"servers": {}})
    for source in SIX:
        serve_case(upstream, source)


def serve_shared(upstream: Upstream, shared: Path, day: date) -> None:
    """The real recordings beside the checkout; the ECB answer of ``day`` is of our own, in the documented shape."""
    recorded = shared / "recorded"
    upstream.add(runpod.PATH, (recorded / "gpu-markets/runpod_graphql_gpuTypes_2026-10.json").read_bytes(), method="POST")
    _serve_scaleway(upstream, recorded / "gpu-clouds/scaleway")
    upstream.add(
        coreweave.PATH, (recorded / "gpu-markets/html/coreweave_pricing_2026-10.html").read_bytes(), headers={"Content-Type": "text/html"}
    )
    upstream.add(genai_prices.PATH, gzip.decompress((recorded / "tokens/genai-prices/v2-data.2026-08-21.47df840a.json.gz").read_bytes()))
    upstream.add(openrouter.PATH, (recorded / "tokens/openrouter/models.ai-pricelog-fixture.2026-08-30.json").read_bytes())
    upstream.add(ecb.PATH, ecb_xml(day, {"USD": "1.1555", "CNY": "8.2340", "GBP": "0.8790"}), headers={"Content-Type": "text/xml"})
    upstream.robots("User-agent: *\nAllow: /\n")


def _serve_scaleway(upstream: Upstream, folder: Path) -> None:
    """Pages of the GPU zones with their Link headers. A zone nobody recorded answers an empty list, as one without GPUs does."""
    for zone in ZONES:
        upstream.add(scaleway.PATH.format(zone=zone), {"servers": {}})
        upstream.add(scaleway.STOCK_PATH.format(zone=zone), {"servers": {}})
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        address, _, query = re.sub(r"^https?://[^/]+", "", found["_request_url"]).partition("?")
        page = dict(part.split("=", 1) for part in query.split("&") if part).get("page", "1")
        link = {name.lower(): value for name, value in found["_response_headers"].items()}.get("link")
        link = link[0] if isinstance(link, list) else link
        headers = {"Link": link} if link else {}
        upstream.add(address, json.dumps(found["body"]).encode(), query={"page": page}, headers=headers)


def ecb_xml(day: date, rates: dict[str, str]) -> str:
    """An ECB daily answer in the documented shape."""
    cubes = "".join(f'<Cube currency="{currency}" rate="{rate}"/>' for currency, rate in rates.items())
    return (
        '<?xml version="1.0" encoding="UTF-8"?><gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01" '
        'xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref"><gesmes:subject>Reference rates</gesmes:subject>'
        f'<Cube><Cube time="{day.isoformat()}">{cubes}</Cube></Cube></gesmes:Envelope>'
    )


RUNPOD_GPU = {
    "manufacturer": "Nvidia", "secureCloud": True, "communityCloud": False, "communityPrice": 0, "secureSpotPrice": None,
    "communitySpotPrice": None, "oneMonthPrice": None, "threeMonthPrice": None, "sixMonthPrice": None, "maxGpuCount": 8,
    "maxGpuCountSecureCloud": 8, "maxGpuCountCommunityCloud": 0, "secureStock": {"stockStatus": "High"}, "communityStock": None,
    "secureStock8": {"stockStatus": "High"}, "communityStock8": None,
}  # fmt: skip


def runpod_answer(prices: dict[str, str]) -> str:
    """A GraphQL answer that sells each GPU type in the secure cloud at a price per GPU-hour, one to eight on a machine."""
    types = [
        json.dumps({**RUNPOD_GPU, "id": name, "displayName": name, "memoryInGb": 288, "securePrice": 0}).replace(
            '"securePrice": 0', f'"securePrice": {price}'
        )
        for name, price in prices.items()
    ]
    return '{"data": {"gpuTypes": [' + ", ".join(types) + "]}}"


def genai_answer(lists: dict[str, dict[str, dict[str, str]]]) -> str:
    """A v2 file: provider -> model -> price per Mtok by its field name."""
    return json.dumps(
        [
            {
                "id": provider,
                "name": provider,
                "api_pattern": "x",
                "models": [
                    {"id": name, "match": {"equals": name}, "prices": {field: float(price) for field, price in prices.items()}}
                    for name, prices in models.items()
                ],
            }
            for provider, models in lists.items()
        ]
    )


def serve_market(upstream: Upstream, *, b300: str = "6.94", h200: str = "3.59") -> None:
    """Six sources with prices chosen so that the answers can be worked out by hand; the rates are those of seeds 001 and 002."""
    serve_six(upstream)
    upstream.add(runpod.PATH, runpod_answer({"NVIDIA B300 SXM6 AC": b300, "NVIDIA H200": h200}), method="POST")
    kimi = {"input_mtok": "2", "cache_read_mtok": "0.2", "cache_write_mtok": "2", "cache_write_1h_mtok": "4", "output_mtok": "10"}
    muse = {"input_mtok": "1.25", "cache_read_mtok": "0.15", "output_mtok": "4.25"}
    upstream.add(
        genai_prices.PATH,
        genai_answer({"moonshotai": {"kimi-k3.1-pro": kimi}, "together": {"meta-models/Muse-Spark-Open-816B-A42B": muse}}),
    )
