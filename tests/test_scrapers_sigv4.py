"""AWS Signature Version 4 against the examples AWS publishes: its test suite of 2015, and the signing key of its documentation."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from scrapers.sigv4 import Credentials, credentials, sign_get, signing_key

# All examples: https://docs.aws.amazon.com/IAM/latest/UserGuide/create-signed-request.html and the suite aws-sig-v4-test-suite
KEY = Credentials(access_key="AKIDEXAMPLE", secret_key="wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
NOW = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
HOST = "https://example.amazonaws.com"
UNRESERVED = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
PUBLISHED = [
    ("get-vanilla", f"{HOST}/", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("get-vanilla without a path", HOST, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    (
        "get-vanilla-query-order-key-case",
        f"{HOST}/?Param2=value2&Param1=value1",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "get-vanilla-query-unreserved",
        f"{HOST}/?{UNRESERVED}={UNRESERVED}",
        "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197",
    ),
    ("get-vanilla-utf8-query", f"{HOST}/?{quote(chr(0x1234))}=bar", "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04"),
    ("get-unreserved", f"{HOST}/{UNRESERVED}", "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f"),
    ("get-utf8", f"{HOST}/{quote(chr(0x1234))}", "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85"),
]


@pytest.mark.parametrize(("name", "url", "signature"), PUBLISHED, ids=[case[0] for case in PUBLISHED])
def test_the_signature_is_the_published_one(name: str, url: str, signature: str) -> None:
    told = sign_get(KEY, "us-east-1", "service", url, NOW)
    assert told["X-Amz-Date"] == "20150830T123600Z"
    assert told["Authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "
        f"SignedHeaders=host;x-amz-date, Signature={signature}"
    )


def test_the_example_of_the_documentation_with_a_header_of_its_own() -> None:
    """GET ?Action=ListUsers&Version=2010-05-08 of IAM."""
    url = "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08"
    told = sign_get(KEY, "us-east-1", "iam", url, NOW, {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"})
    assert told["Authorization"].endswith(
        "SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def test_the_signing_key_of_the_documentation() -> None:
    found = signing_key(KEY.secret_key, "20150830", "us-east-1", "iam")
    assert found.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


def test_a_session_token_is_sent_and_signed() -> None:
    told = sign_get(Credentials(access_key="A", secret_key="s", token="t"), "us-east-1", "ec2", HOST, NOW)
    assert told["X-Amz-Security-Token"] == "t"
    assert "SignedHeaders=host;x-amz-date;x-amz-security-token," in told["Authorization"]


@pytest.mark.parametrize(
    ("text", "found"),
    [("id:secret", ("id", "secret", "")), (" id:secret:to:ken\n", ("id", "secret", "to:ken")), ("id", None), (":s", None), ("i:", None)],
)
def test_keys_as_written(text: str, found: tuple[str, str, str] | None) -> None:
    key = credentials(text)
    assert (None if key is None else (key.access_key, key.secret_key, key.token)) == found


def test_a_key_is_not_shown() -> None:
    assert "secret-" not in repr(Credentials(access_key="A", secret_key="secret-1", token="secret-2"))
