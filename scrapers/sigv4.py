"""AWS Signature Version 4: the headers that make AWS trust a GET. Spec: https://docs.aws.amazon.com/IAM/latest/UserGuide/
create-signed-request.html (read 2026-11-29). Written out because botocore weighs twenty megabytes and AWS's own signer needs Python 3.12.

A signature holds the moment it was made and is good for five minutes, so that it is made when a request is sent, not before.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import parse_qsl, quote, unquote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
UNRESERVED = "-_.~"  # beside letters and digits (RFC 3986, 2.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An access key; ``token`` is empty for one that does not expire."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str = field(default="", repr=False)


def credentials(key: str) -> Credentials | None:
    """The access key of ``id:secret`` or ``id:secret:token``; None where it is neither."""
    parts = key.strip().split(":", 2)
    if len(parts) < 2 or not all(parts):
        return None
    return Credentials(access_key=parts[0], secret_key=parts[1], token="".join(parts[2:]))


def sign_get(
    key: Credentials, region: str, service: str, url: str, now: datetime, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Headers for a GET of ``url`` at ``now``; ``headers`` are signed with it and must be sent as they are."""
    address, moment = urlsplit(url), now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/{service}/aws4_request"
    token = {"x-amz-security-token": key.token} if key.token else {}
    signed = {"host": address.netloc, "x-amz-date": moment, **token, **{name.lower(): value for name, value in (headers or {}).items()}}
    names = ";".join(sorted(signed))
    lines = (
        "GET",
        quote(unquote(address.path) or "/", safe=f"/{UNRESERVED}"),
        _query(address.query),
        *(f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)),
        "",
        names,
        hashlib.sha256(b"").hexdigest(),
    )
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256("\n".join(lines).encode()).hexdigest()))
    signature = _hmac(signing_key(key.secret_key, moment[:8], region, service), text).hex()
    told = f"{ALGORITHM} Credential={key.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {"X-Amz-Date": moment, **({"X-Amz-Security-Token": key.token} if key.token else {}), "Authorization": told}


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    """The key of one day (YYYYMMDD), region and service."""
    found = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        found = _hmac(found, part)
    return found


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _query(query: str) -> str:
    """Parameters encoded and in the order of their encoded names and values."""
    pairs = [(quote(name, safe=UNRESERVED), quote(value, safe=UNRESERVED)) for name, value in parse_qsl(query, keep_blank_values=True)]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))
