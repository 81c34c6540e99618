"""robots.txt as RFC 9309 reads it; the examples of its sections 2.2 and 5 are among the cases."""

from __future__ import annotations

import time

import pytest

from scrapers.robots import ALLOW_ALL, rules_for


def allows(text: str, target: str, product: str = "breakeven") -> bool:
    return rules_for(text, product).allows(target)


SIMPLE = """
User-agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-agent: barbot
User-agent: bazbot
Disallow: /example/page.html

User-agent: quxbot
"""  # RFC 9309, 5.1


@pytest.mark.parametrize(
    ("product", "target", "allowed"),
    [
        ("breakeven", "/image.gif", False),
        ("breakeven", "/image.gif?x=1", True),
        ("breakeven", "/example/", False),
        ("breakeven", "/publications/x", True),
        ("breakeven", "/", True),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("foobot", "/publications/", False),
        ("FooBot", "/publications/", False),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/image.gif", True),
        ("quxbot", "/example/", True),
    ],
)
def test_groups_by_product(product: str, target: str, allowed: bool) -> None:
    assert allows(SIMPLE, target, product) is allowed


@pytest.mark.parametrize(
    ("rules", "target", "allowed"),
    [
        ("Allow: /example/page/\nDisallow: /example/page/disallowed.gif", "/example/page/disallowed.gif", False),  # 5.2
        ("Disallow: /\nAllow: /pricing", "/pricing", True),  # the longest match, whatever comes first
        ("Allow: /\nDisallow: /pricing", "/pricing/gpu", False),
        ("Disallow: /page\nAllow: /page", "/page", True),  # 2.2.2: allow where both are as long
        ("Disallow:", "/anything", True),
        ("Disallow: /", "/robots.txt", True),  # 2.2.2
        ("Disallow: /a*c", "/abc", False),
        ("Disallow: /a*c", "/ab", True),
        ("Disallow: /*/private*/x", "/team/private-notes/x/y", False),
        ("Disallow: /*?sort=", "/list?page=2&sort=up", True),
        ("Disallow: /*sort=", "/list?page=2&sort=up", False),
        ("Disallow: /exact$", "/exact", False),
        ("Disallow: /exact$", "/exactly", True),
        ("Disallow: /a*b$", "/a-b-b", False),
        ("Disallow: /a*b$", "/a-b-c", True),
        ("Disallow: /ab*b$", "/ab", True),
        ("Disallow: /*$", "/anything", False),
        ("Disallow: /foo/bar/%E3%83%84", "/foo/bar/\u30c4", False),  # 2.2.2
        ("Disallow: /foo/bar/\u30c4", "/foo/bar/%e3%83%84", False),
        ("Disallow: /%62%61%7A", "/baz", False),
        ("Disallow: /Case", "/case", True),
        ("disallow : /x # not there", "/x", False),
        ("nonsense\n: /x\nDisallow /x\nSitemap: http://prices.test/x", "/x", True),
    ],
)
def test_rules(rules: str, target: str, allowed: bool) -> None:
    assert allows(f"User-agent: *\n{rules}", target) is allowed


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_byte_order_mark(end: str) -> None:
    assert not allows("\ufeff" + end.join(["User-Agent: *", "", "Disallow: /x"]), "/x")


def test_groups_of_one_product_are_one() -> None:
    text = "User-agent: breakeven\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n\nUser-agent: Breakeven/2.0\nDisallow: /b"
    assert [allows(text, target) for target in ("/a", "/b", "/c")] == [False, False, True]


def test_rules_before_any_product_are_of_nobody() -> None:
    assert allows("Disallow: /\nUser-agent: *\nDisallow: /x", "/y")


@pytest.mark.parametrize("text", ["", "<html><body>404</body></html>", "\0\0\0"])
def test_a_file_without_rules_allows_everything(text: str) -> None:
    assert rules_for(text, "breakeven") == ALLOW_ALL


@pytest.mark.parametrize(("value", "seconds"), [("10", 10), ("0", 0), ("-1", 0), ("soon", 0), ("nan", 0), ("9" * 30, 0), ("\u0663", 0)])
def test_crawl_delay(value: str, seconds: float) -> None:
    assert rules_for(f"User-agent: *\nCrawl-delay: {value}", "breakeven").crawl_delay_s == seconds


def test_a_hostile_file_takes_no_time() -> None:
    text = "User-agent: *\n" + f"Disallow: /{'*a' * 2000}b\n" * 100
    before = time.process_time()
    assert allows(text, "/" + "a" * 8000)
    assert time.process_time() - before < 2
