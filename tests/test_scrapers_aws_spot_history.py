"""AWS spot history over real HTTP: every region at its host, every request signed when it is sent, the secret nowhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from time import monotonic

import pytest
from upstream import Seen, Upstream

from scrapers import aws_spot_history
from scrapers.contract import FetchError, LayoutChanged, MissingKey
from scrapers.http import HostGate, SourceClient, SourceLimits, open_client
from scrapers.sigv4 import credentials, sign_get

pytestmark = pytest.mark.loopback
NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
KEY = "AKIDEXAMPLE:s3cret/of+ours:t0ken"
ANSWER = "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet/>{token}</DescribeSpotPriceHistoryResponse>"  # of no prices


def client_of(*upstreams: Upstream, attempts: int = 3) -> SourceClient:
    """A client whose regions are the upstreams, and whose clock is a minute further at each look."""
    regions = {f"region-{number}": upstream.url for number, upstream in enumerate(upstreams, 1)}
    limits = SourceLimits(
        base_url=upstreams[0].url, regions=regions, user_agent="t", min_interval_s=0, attempts=attempts, secrets=(KEY, *KEY.split(":")[1:])
    )
    minutes = count()
    gate = HostGate(monotonic=monotonic)
    return open_client(limits, host_gate=gate, now=lambda: NOW + timedelta(minutes=next(minutes)), sleep=lambda seconds: None)


def told(seen: Seen) -> dict[str, str]:
    return {name: value for name, value in seen.headers.items() if name in ("authorization", "x-amz-date", "x-amz-security-token")}


def test_every_region_is_asked_at_its_host_and_every_page_is_signed(upstream: Upstream) -> None:
    with Upstream() as other:
        upstream.add("/", ANSWER.format(token="<nextToken>a+/=b</nextToken>"))
        upstream.add("/", ANSWER.format(token="<nextToken/>"), query={"NextToken": "a+/=b"})
        other.add("/", ANSWER.format(token=""))
        with client_of(upstream, other) as client:
            pages = aws_spot_history.fetch(client, {"key": KEY})
        assert [len(upstream.seen), len(other.seen), len(pages)] == [2, 1, 3]
        for region, server in (("region-1", upstream), ("region-2", other)):
            for seen, page in zip(server.seen, pages[:2] if server is upstream else pages[2:], strict=True):
                moment = datetime.strptime(seen.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
                key = credentials(KEY)
                assert key is not None
                signed = sign_get(key, region, "ec2", page.url, moment)
                assert told(seen) == {name.lower(): value for name, value in signed.items()}
                assert f"/{region}/ec2/aws4_request" in seen.headers["authorization"]
        asked = upstream.seen[0].query
        assert asked["Action"] == "DescribeSpotPriceHistory" and asked["ProductDescription.1"] == "Linux/UNIX"
        assert upstream.seen[0].query["StartTime"] == upstream.seen[1].query["StartTime"]
        shown = "".join(str(seen) for seen in (*upstream.seen, *other.seen)) + "".join(page.url for page in pages)
        assert "s3cret" not in shown


def test_an_attempt_is_signed_anew(upstream: Upstream) -> None:
    """A signature is good for five minutes, and a wait may be longer."""
    upstream.add("/", ANSWER.format(token=""), faults=["status:503"])
    with client_of(upstream) as client:
        aws_spot_history.fetch(client, {"key": KEY})
    dates = [seen.headers["x-amz-date"] for seen in upstream.seen]
    assert len(dates) == 2 and dates[0] < dates[1]
    assert upstream.seen[0].headers["authorization"] != upstream.seen[1].headers["authorization"]


def test_a_refusal_says_what_to_do_and_shows_no_key(upstream: Upstream) -> None:
    upstream.add("/", b"<Response/>", status=401)
    with client_of(upstream) as client, pytest.raises(FetchError) as caught:
        aws_spot_history.fetch(client, {"key": KEY})
    assert "set or renew the key of this source" in str(caught.value)
    assert not [part for part in ("s3cret", "t0ken", "AWS4-HMAC") if part in str(caught.value)]


def test_pages_without_end_are_a_loop(upstream: Upstream) -> None:
    upstream.add("/", ANSWER.format(token="<nextToken>again</nextToken>"))
    with client_of(upstream) as client, pytest.raises(LayoutChanged, match="at most 20 pages of region-1"):
        aws_spot_history.fetch(client, {"key": KEY})


@pytest.mark.parametrize("secrets", [{}, {"key": ""}, {"key": "only-an-id"}, {"key": ":secret"}])
def test_without_id_and_secret_nothing_is_asked(upstream: Upstream, secrets: dict[str, str]) -> None:
    with client_of(upstream) as client, pytest.raises(MissingKey, match="id:secret"):
        aws_spot_history.fetch(client, secrets)
    assert upstream.seen == []


def test_another_host_is_none_of_its_regions(upstream: Upstream) -> None:
    with Upstream() as stranger:
        upstream.add("/", b"", lasting_fault=f"redirect:{stranger.url}/")
        with client_of(upstream) as client, pytest.raises(FetchError, match="outside"):
            aws_spot_history.fetch(client, {"key": KEY})
        assert stranger.seen == []
