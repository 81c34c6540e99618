"""The bytes of ``/metrics``: the same as prometheus_client's, whatever labels and numbers are; and which form a reader gets."""

from __future__ import annotations

import gzip
import random
import subprocess
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics.exposition import generate_latest as generate_open_metrics
from prometheus_client.registry import Collector

from tracker.metrics.exposition import TOGETHER, Family, Form, Renderer, Sample, assemble, pieces
from tracker.metrics.negotiation import negotiate
from tracker.metrics.packing import Packer

# --- against prometheus_client ---------------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: not name.endswith(("_total", "_created")))
LABELS = st.lists(NAMES.filter(lambda name: not name.startswith("__")), max_size=5, unique=True).map(tuple)
HOSTILE = st.sampled_from(['"', "\\", "\n", '\\"', "\\n", '"} 1\nx{y="', "", " ", "\r", "\x00", "é\N{SNOWMAN}\U0001f600", "{}", ",", "="])
VALUES = st.one_of(HOSTILE, st.text(max_size=12).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text)))
ODD = (
    0.0, -0.0, 1e6, 999999.0, 1000000.5, -1e6, 1e15, 1e16, 1e17, 123456789.125, 5e-324, 1.7976931348623157e308, float("inf"),
    float("-inf"), float("nan"), 1e-5, 0.1 + 0.2, 2**53, 100, 10**6, True,
)  # fmt: skip
NUMBERS = st.one_of(st.sampled_from(ODD), st.floats(), st.integers(-(10**15), 10**15))


@st.composite
def any_family(draw: st.DrawFn) -> Family:
    labels = draw(LABELS)
    values = st.tuples(*(VALUES for _ in labels))
    samples = draw(st.lists(st.tuples(values, NUMBERS), max_size=4))
    text = draw(st.one_of(HOSTILE, st.text(max_size=20).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t))))
    return Family(name=draw(NAMES), text=text, kind=draw(st.sampled_from(("gauge", "counter"))), labels=labels, samples=samples)


FORMS: tuple[Form, ...] = ("text", "openmetrics")


class Stock(Collector):
    """The same families for prometheus_client."""

    def __init__(self, families: list[Family]) -> None:
        self.families = families

    def collect(self) -> Iterator[Metric]:
        for family in self.families:
            kind = GaugeMetricFamily if family.kind == "gauge" else CounterMetricFamily
            built = kind(family.name, family.text, labels=family.labels)
            for values, number in family.samples:
                built.add_metric(values, number)
            yield built


def stock(families: list[Family]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Stock(families))
    return registry


@given(st.lists(any_family(), max_size=4), st.lists(any_family(), max_size=2))
def test_both_forms_are_to_the_byte_what_prometheus_client_writes(families: list[Family], before: list[Family]) -> None:
    renderer = Renderer()
    renderer.lines([*before, *families])  # what it remembers must not show
    written = renderer.lines(families)
    assert assemble(written, "text") == generate_latest(stock(families))
    assert assemble(written, "openmetrics") == generate_open_metrics(stock(families))


@pytest.mark.parametrize("scheme", ["allow-utf-8", "underscores"])
def test_our_names_are_the_same_under_every_scheme_we_claim(scheme: str) -> None:
    family = Family(name="breakeven_a_usd", text='It\'s "so".', kind="counter", labels=("b_c",), samples=[(("ü",), 1.0)])
    assert assemble(Renderer().lines([family]), "text") == generate_latest(stock([family]), escaping=scheme)
    assert assemble(Renderer().lines([family]), "openmetrics") == generate_open_metrics(stock([family]), escaping=scheme)


def test_a_second_rendering_tells_the_new_number_and_forgets_what_is_gone() -> None:
    renderer, family = Renderer(), Family(name="a", text="", kind="gauge", labels=("b",), samples=[(("x",), 1.0), (("y",), 2.0)])
    renderer.lines([family])
    ((_, texts),) = renderer.lines([replace(family, samples=[(("y",), 3.0)])])
    assert texts == ['a{b="y"} 3.0\n']


def test_series_that_are_gone_are_not_remembered_for_ever() -> None:
    renderer, family = Renderer(), Family(name="a", text="", kind="gauge", labels=("b",), samples=[])
    for number in range(1000):
        ((_, texts),) = renderer.lines([replace(family, samples=[((str(number),), 1.0)])])
        assert texts == [f'a{{b="{number}"}} 1.0\n']
    (written,) = renderer._written.values()
    assert (len(written.lines), len(written.heads) < 200) == (1, True)


def test_a_sample_that_is_kept_is_written_as_before_and_an_equal_one_as_it_is() -> None:
    renderer, family = Renderer(), Family(name="a", text="", kind="gauge", labels=("b",), samples=[])
    kept: list[Any] = [(("x",), 1.5), (("y",), 0.0)]
    for samples in (kept, [kept[0], (("y",), -0.0)], [(("y",), 2), kept[0]], kept[::-1]):
        assert renderer.lines([replace(family, samples=samples)]) == Renderer().lines([replace(family, samples=samples)])


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_through_many_changes_is_what_is_written_from_nothing(seed: int) -> None:
    """Samples that move, come, go, change places and are the same objects as before, in several hundreds and in a few."""
    dice, renderer, packers = random.Random(seed), Renderer(), {form: Packer() for form in FORMS}
    families = [Family(name=f"f{n}", text="t", kind="gauge", labels=("b",), samples=[]) for n in range(4)]
    for _ in range(40):
        families = [replace(family, samples=_changed(dice, list(family.samples))) for family in families]
        written, anew = renderer.lines(families), Renderer().lines(families)
        assert written == anew
        for form in FORMS:
            body, packed = assemble(written, form), packers[form].packed(pieces(written, form))
            assert gzip.decompress(packed) == body
            assert packed == Packer().packed(pieces(anew, form))
        assert assemble(written, "text") == generate_latest(stock(families))


def _changed(dice: random.Random, samples: list[Sample]) -> list[Sample]:
    for place in dice.sample(range(len(samples)), min(len(samples), dice.choice((0, 1, 5)))):
        samples[place] = (samples[place][0], dice.choice((dice.random(), dice.randrange(10**7), 0.0, -0.0)))
    what = dice.choice(("nothing", "nothing", "come", "many come", "go", "turn"))
    if what in ("come", "many come"):
        place = dice.randint(0, len(samples))
        samples[place:place] = [((str(dice.random()),), 1.0) for _ in range(2 * TOGETHER if what == "many come" else 1)]
    elif what == "go":
        start = dice.randint(0, len(samples))
        del samples[start : start + dice.randint(0, 9)]
    elif what == "turn":
        samples.reverse()
    return samples


def test_a_family_that_could_not_be_written_is_written_whole_the_next_time() -> None:
    renderer, family = Renderer(), Family(name="a", text="", kind="gauge", labels=("b",), samples=[(("x",), 1.0), (("y",), 2.0)])
    renderer.lines([family])
    wrong = replace(family, samples=[(("x",), 5.0), (("y", "z"), 6.0)])
    for _ in range(2):
        with pytest.raises(ValueError, match="zip"):
            renderer.lines([wrong])
    assert renderer.lines([family]) == Renderer().lines([family])


def test_a_sample_has_a_value_for_every_label() -> None:
    with pytest.raises(ValueError, match="zip"):
        Renderer().lines([Family(name="a", text="", kind="gauge", labels=("b", "c"), samples=[(("x",), 1.0)])])


def test_gzip_gives_the_body_back_and_always_the_same_bytes() -> None:
    body = b'a{b="c"} 1.0\n' * 1000
    packed = Packer().packed([body])
    assert gzip.decompress(packed) == body
    assert packed == Packer().packed([body])
    assert len(packed) < len(body) / 50


def test_gzip_in_pieces_is_one_stream_for_readers_that_know_of_no_second_one() -> None:
    packer = Packer()
    for texts in ([b""], [b"a" * 70_000, b"", b"b\n"], [b"a" * 70_000, b"c"], [], [b"c", bytes(range(256)) * 300, b"c"]):
        reader = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        assert reader.decompress(packer.packed(texts)) == b"".join(texts)
        assert (reader.eof, reader.unused_data) == (True, b"")
        assert subprocess.run(["gzip", "-dc"], input=packer.packed(texts), capture_output=True, check=True).stdout == b"".join(texts)


# --- negotiation -----------------------------------------------------------------------------------------------------------

TEXT_0, TEXT_1 = "text/plain; version=0.0.4; charset=utf-8", "text/plain; version=1.0.0; charset=utf-8"
OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", TEXT_0),
        ("*/*", TEXT_0),
        ("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8", TEXT_0),
        ("text/plain", TEXT_0),
        ("text/plain;version=0.0.4", TEXT_0),
        ("text/plain;version=1.0.0", TEXT_1 + "; escaping=underscores"),
        ("text/plain;version=1.0.0;escaping=allow-utf-8", TEXT_1 + "; escaping=allow-utf-8"),
        ("text/plain;version=1.0.0;escaping=values", TEXT_1 + "; escaping=underscores"),
        ("application/openmetrics-text", OPEN),
        (PROMETHEUS_2, OPEN + "; escaping=underscores"),
        (PROMETHEUS_3, OPEN + "; escaping=allow-utf-8"),
        ("application/openmetrics-text;version=2.0.0", OPEN + "; escaping=underscores"),
        ("application/openmetrics-text;version=1.0.0;escaping=dots", OPEN + "; escaping=underscores"),
        ("application/openmetrics-text;version=0.0.1", TEXT_0),  # a draft nobody writes any more
        ("application/openmetrics-text;version=1.0.0;q=0.1,text/plain;version=0.0.4;q=0.9", TEXT_0),
        ("text/plain;version=0.0.4;q=0.4,application/openmetrics-text;version=1.0.0", OPEN + "; escaping=underscores"),
        ("application/openmetrics-text;version=1.0.0;q=0", TEXT_0),
        ("APPLICATION/OPENMETRICS-TEXT ; Version=1.0.0", OPEN + "; escaping=underscores"),
        ("application/openmetrics-text;version=1.0.0;q=lots", TEXT_0),
        ("application/openmetrics-text;version=one", TEXT_0),
        ("application/openmetrics-text;version=99999999999999999999", TEXT_0),
        (";;,=,;q=", TEXT_0),
    ],
)
def test_the_form_follows_the_accept_header(accept: str, content_type: str) -> None:
    found = negotiate(accept, "")
    assert (found.content_type, found.form) == (content_type, "openmetrics" if content_type.startswith(OPEN) else "text")


@pytest.mark.parametrize("accept", ["", "text/plain", "application/openmetrics-text", PROMETHEUS_2, PROMETHEUS_3])
def test_readers_there_are_get_what_prometheus_client_would_give_them(accept: str) -> None:
    assert negotiate(accept, "").content_type == choose_encoder(accept)[1]


@given(st.text(max_size=60), st.text(max_size=30))
def test_no_header_is_too_odd_for_an_answer(accept: str, encoding: str) -> None:
    found = negotiate(accept, encoding)
    assert found.content_type.isascii()
    assert "\n" not in found.content_type


@pytest.mark.parametrize(
    ("header", "taken"),
    [("", False), ("gzip", True), ("deflate, gzip;q=1.0, *;q=0.5", True), ("gzip;q=0", False), ("GZIP", True), ("identity", False),
     ("*", False), ("gzipped", False), ("br,gzip", True)],
)  # fmt: skip
def test_gzip_is_sent_to_who_asks_for_it(header: str, taken: bool) -> None:
    assert negotiate("", header).gzip is taken
