"""A message with its picture: in a mail, in a chat, behind a link; and without one, which is never a reason to say nothing."""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from asgi import Served
from asgi import get as answers
from extras import extra
from servers import free_port
from small_world import offer
from sqlalchemy import Engine
from upstream import Upstream
from watching import CHEAPER, HOOK, Watch, watch_with

from tracker.alerting import alertmanager, gallery, ledger
from tracker.alerting.gallery import MOST, Gallery, why_none
from tracker.alerting.mail import mail
from tracker.alerting.outbox import Outbox, outbox_of
from tracker.alerting.picture import Picture
from tracker.alerting.routes import Email
from tracker.answers.recompute import recompute
from tracker.pictures import drawing
from tracker.web.front import make_front

PUBLIC = '\n[web]\npublic_url = "https://prices.example"\n'
DIGEST = '[rules.drop]\nkind = "price_drop"\ngpus = ["test-80", "test-141"]\npercent = 10\nsweeps = 1\n[delivery]\nbundle_above = 1\n'
PNG = b"\x89PNG\r\n\x1a\n"
Make = Callable[..., Watch]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # Apprise imports modules that Python 3.13 drops


@pytest.fixture(autouse=True)
def drawn() -> None:
    extra("pillow")


@pytest.fixture
def make(db: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A cheaper setup is told; mail goes to a server that keeps it."""
    monkeypatch.setenv("BREAKEVEN_WEBHOOK_URL", "http://127.0.0.1:9/hook")

    def made(rules: str = CHEAPER, prices: tuple[str, ...] = ("2.00", "1.80", "1.80")) -> Watch:
        watch = watch_with(db, tmp_path, rules, tracker_toml=TRACK)
        for price in prices:
            watch.look(price)
        return watch

    return made


TRACK = '[track]\nmodels = ["large-60b"]\nworkload = "turns"\n\n[fetch]\nuser_agent = "breakeven-tests"\n' + PUBLIC


class Mailbox:
    """A mail server's handler that keeps what it is sent."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))  # type: ignore[arg-type]
        return "250 kept"


def mailed(watch: Watch, deliveries: int = 1, draw: Callable[..., bytes] = drawing.png) -> EmailMessage:
    """The mail that the outbox of a daemon sends."""
    mailbox = Mailbox()
    server = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    server.start()
    route = Email(host="127.0.0.1", port=server.port, security="none", to=("a@x.example",))
    world = replace(watch.world, alerts=replace(watch.world.alerts, routes={"webhook": route}))  # what is for the webhook goes by mail
    try:
        with httpx.Client() as client:
            assert outbox_of(watch.db, world, lambda: watch.at, draw).deliver(client) == deliveries
    finally:
        server.stop()
    return mailbox.mails[-1]


@pytest.mark.loopback
def test_a_mail_shows_the_picture_within_its_html_and_has_plain_text_beside(make: Make) -> None:
    found = mailed(make(CHEAPER + HOOK))
    assert found.get_content_type() == "multipart/alternative"
    text, related = found.iter_parts()
    assert text.get_content().startswith("cheaper setup for large-60b: $1.80/h instead of $2.00/h")
    assert related.get_content_type() == "multipart/related"
    html, image = related.iter_parts()  # type: ignore[attr-defined]
    assert (html.get_content_type(), image.get_content_type()) == ("text/html", "image/png")
    assert f'src="cid:{image["Content-ID"].strip("<>")}"' in html.get_content()
    assert 'alt="large-60b: $1.80/h instead of $2.00/h"' in html.get_content()
    assert image.get_content().startswith(PNG)
    assert len(image.get_content()) < 200_000
    assert image["Content-Disposition"].startswith("inline")


def test_nothing_a_source_prints_becomes_html() -> None:
    message = {"id": "msg_1", "title": "<b>", "text": "a < b & c", "fired_at": "2026-11-02T12:00:00Z", "sku": '"><script>x</script>'}
    found = mail(message, Email(), datetime.fromisoformat("2026-11-02T12:00:00Z"), [Picture("p.png", '"><script>', PNG)])
    html = found.get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert "<script>" not in html
    assert "a &lt; b &amp; c" in html


@pytest.mark.loopback
def test_a_digest_shows_the_pictures_of_its_first_alerts(make: Make) -> None:
    watch = make(DIGEST + HOOK, ())
    for factor in ("2.00", "1.00"):
        watch.look(*(offer(factor, sku=gpu, gpu=gpu) for gpu in ("test-80", "test-141")))
    watch.look(*(offer("1.00", sku=gpu, gpu=gpu) for gpu in ("test-80", "test-141")))
    assert [row["kind"] for row in watch.told()] == ["price_drop", "price_drop", "digest"]
    related = list(mailed(watch).iter_parts())[1]
    assert [part.get_content_type() for part in related.iter_parts()] == ["text/html", "image/png", "image/png"]  # type: ignore[attr-defined]
    assert MOST == 4


@pytest.mark.loopback
def test_a_chat_that_takes_files_gets_it_and_one_that_takes_none_gets_words_and_a_link(
    make: Make, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two services Apprise sends files to the one that takes JSON, and none to Gotify."""
    extra("apprise")
    host = upstream.url.removeprefix("http://")
    upstream.add("/one", b"", method="POST")
    upstream.add("/message", b"", method="POST")
    monkeypatch.setenv("BREAKEVEN_APPRISE_URLS", f"json://{host}/one gotify://{host}/t0ken")
    watch = make(CHEAPER + '[routes.chat]\nkind = "apprise"\n')
    shown = Gallery(watch.db, watch.world)
    with httpx.Client() as client:
        assert Outbox(watch.db, watch.world.alerts, lambda: watch.at, gallery=shown).deliver(client) == 2
    (attached,) = upstream.asked("/one")[0].json()["attachments"]
    assert (attached["filename"], attached["mimetype"]) == ("history-1.png", "image/png")
    assert base64.b64decode(attached["base64"]).startswith(PNG)
    (words,) = upstream.asked("/message")
    assert "attach" not in words.body.decode()
    assert words.json()["message"].startswith("cheaper setup for large-60b")
    links = ["https://prices.example/", "https://prices.example/api/v1/alerts/1/history.png"]
    assert words.json()["message"].splitlines()[-2:] == links
    assert links[1] not in upstream.asked("/one")[0].json()["message"]  # it has the picture itself


def get(watch: Watch, path: str) -> httpx.Response:
    snapshot = recompute(watch.db, watch.world, watch.sizer, watch.at)
    (answer,) = answers(make_front(Served(watch.world, watch.db, snapshot, lambda: watch.at)), path)
    return answer


@pytest.mark.loopback
def test_webhook_and_alertmanager_get_a_link_to_the_same_picture(make: Make) -> None:
    watch = make(CHEAPER + HOOK)
    message = ledger.message_of(watch.told()[0])  # type: ignore[arg-type]
    link = message["history_png_url"]
    assert link == "https://prices.example/api/v1/alerts/1/history.png"
    assert alertmanager.pushed(message, watch.at)["annotations"]["history_png_url"] == link
    answer = get(watch, link.removeprefix("https://prices.example"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "image/png")
    (shown,) = [part for part in mailed(watch).walk() if part.get_content_type() == "image/png"]
    assert answer.content == shown.get_content()  # type: ignore[attr-defined]


def test_what_has_no_picture_says_so(make: Make) -> None:
    watch = make('[rules.stale]\nkind = "source_stale"\nsweeps = 1\n' + HOOK, ("2.00",))
    watch.wait(hours=4)
    assert len(watch.judge()) == 1
    assert "history_png_url" not in ledger.message_of(watch.told()[0])  # type: ignore[arg-type]
    found = [get(watch, f"/api/v1/alerts/{number}/history.png") for number in ("1", "2", "0", "x")]
    assert [answer.status_code for answer in found] == [404, 404, 422, 422]
    assert found[0].json() == {"detail": "alert 1 is about no price, or nothing of it is known any more"}


# --- without ----------------------------------------------------------------------------------------------------------


def fails(*_: object) -> bytes:
    raise MemoryError


@pytest.mark.loopback
def test_a_picture_that_cannot_be_drawn_holds_no_message_back(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    found = mailed(make(CHEAPER + HOOK), draw=fails)
    assert found.get_content_type() == "text/plain"
    assert "goes out without a picture: MemoryError" in caplog.text


@pytest.mark.loopback
def test_a_picture_that_takes_too_long_is_not_waited_for_nor_begun_again(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    over = threading.Event()

    def hangs(*_: object) -> bytes:
        begun.append(1)
        over.wait(30)
        return PNG

    monkeypatch.setattr(gallery, "MOST_S", 0.05)
    watch = make(CHEAPER.replace("sweeps = 2", "sweeps = 1") + HOOK, ("2.00", "1.80", "1.60"))
    try:
        assert mailed(watch, deliveries=2, draw=hangs).get_content_type() == "text/plain"
    finally:
        over.set()
    assert begun == [1]


@pytest.mark.loopback
def test_one_that_is_too_large_stays_away(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "MOST_BYTES", 1000)
    assert mailed(make(CHEAPER + HOOK)).get_content_type() == "text/plain"


@pytest.mark.loopback
def test_without_the_extra_a_line_says_so_and_messages_go_without(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for where in (drawing, gallery, ledger):
        monkeypatch.setattr(where, "can_draw", lambda: False)
    assert why_none() == "messages carry no pictures of the price history: pip install 'breakeven[pictures]'"
    watch = make(CHEAPER + HOOK)
    assert "history_png_url" not in ledger.message_of(watch.told()[0])  # type: ignore[arg-type]
    answer = get(watch, "/api/v1/alerts/1/history.png")
    assert (answer.status_code, answer.json()) == (501, {"detail": why_none()})
    assert mailed(watch).get_content_type() == "text/plain"
    assert caplog.text.count(why_none()) == 1


def test_nobody_is_told_of_pictures_where_no_route_shows_them(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gallery, "can_draw", lambda: False)
    watch = make(CHEAPER + HOOK)
    outbox_of(watch.db, watch.world, lambda: watch.at)
    assert why_none() not in caplog.text
