"""What is shown holds no credential, and otherwise says what it said."""

from __future__ import annotations

import pytest

from scrapers.redact import is_secret_name, redact


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://a.test/p?key=abc&page=2", "http://a.test/p?key=***&page=2"),
        ("http://a.test/p?page=2&api_key=abc", "http://a.test/p?page=2&api_key=***"),
        ("http://a.test/p?API-KEY=abc#top", "http://a.test/p?API-KEY=***#top"),
        ("http://a.test/p?apikey=abc, then", "http://a.test/p?apikey=*** then"),
        ("http://a.test/p?access_token=abc;x=1", "http://a.test/p?access_token=***;x=1"),
        ("http://a.test/p?X-Amz-Signature=abc&X-Amz-Credential=def", "http://a.test/p?X-Amz-Signature=***&X-Amz-Credential=***"),
        ("http://user:pass@a.test/p", "http://***@a.test/p"),
        ("'http://a.test/p?token=abc' and 'http://b.test'", "'http://a.test/p?token=***' and 'http://b.test'"),
        ("http://a.test/p?page=2&per_page=50&zone=fr-par-1", "http://a.test/p?page=2&per_page=50&zone=fr-par-1"),
        ("http://a.test/p?monkey=1&tokens=2&keyword=3", "http://a.test/p?monkey=1&tokens=2&keyword=3"),
        ("http://a.test/p?pageToken=CAE", "http://a.test/p?pageToken=CAE"),
        ("mail me@a.test about key=abc", "mail me@a.test about key=abc"),
        ("", ""),
    ],
)
def test_credentials_in_addresses(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize("shape", ["s3cr+t/x y", "s3cr%2Bt/x%20y", "s3cr%2Bt%2Fx%20y", "s3cr%2Bt%2Fx+y"])
def test_known_secrets_in_every_shape(shape: str) -> None:
    assert redact(f"found {shape}!", ("s3cr+t/x y",)) == "found ***!"


def test_a_secret_that_holds_another_is_hidden_whole() -> None:
    assert redact("Bearer abcdef", ("abcd", "Bearer abcdef")) == "***"


def test_words_of_three_letters_are_no_secrets() -> None:
    assert redact("expected an answer", ("an", "", "exp")) == "expected an answer"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("Authorization", True),
        ("X-API-Key", True),
        ("x-auth-token", True),
        ("Ocp-Apim-Subscription-Key", True),
        ("Proxy-Authorization", True),
        ("Accept", False),
        ("X-Api-Version", False),
        ("If-None-Match", False),
    ],
)
def test_names_of_secret_headers(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret
