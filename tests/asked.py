"""A client that answers from a list and remembers what it was asked, for the tests of what a scraper fetches."""

from __future__ import annotations

import json as json_text
from collections.abc import Mapping
from typing import Any

from scrapers.contract import Page


class Asked:
    """``asked`` is every call in order: method, path, params or JSON body, headers. Answers are JSON values, given in turn."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, dict[str, Any], dict[str, str]]] = []

    def get(self, path: str, *, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None) -> Page:
        return self._answer("GET", path, dict(params or {}), headers)

    def post(self, path: str, *, json: Any, headers: Mapping[str, str] | None = None) -> Page:
        return self._answer("POST", path, json, headers)

    def _answer(self, method: str, path: str, sent: Any, headers: Mapping[str, str] | None) -> Page:
        self.asked.append((method, path, sent, dict(headers or {})))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Page(url=path, body=json_text.dumps(answer).encode())
