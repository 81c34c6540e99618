"""The shipped rules, judged by promtool: syntax, lint, unit tests; that every rule has a test; that they name only our metrics."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from deployed import ALERTMANAGER, DEPLOY, PROMETHEUS, RULES, alert_names, hurried_rules, record_names

from tracker.metrics.table import COUNTERS, GAUGES, PREFIX

Require = Callable[[str], Path]
TESTS = sorted((PROMETHEUS / "tests").glob("*.yml"))
EXPRESSION = re.compile(r"(?<= expr: )(?:\|-\n(?: {10,}\S.*\n)+|.*\n)")
ENVIRONMENT = {"job", "instance", "pod", "reason"}  # labels of targets; and the reason that rejected rows may be told by


def run(program: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command of promtool or amtool, to its end."""
    return subprocess.run([program, *words], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.real
def test_the_configuration_is_sound(require: Require) -> None:
    done = run(require("promtool"), "check", "config", PROMETHEUS / "prometheus.yml")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SUCCESS: 3 rule files found" in done.stdout


@pytest.mark.real
def test_the_rules_pass_every_lint(require: Require, tmp_path: Path) -> None:
    promtool = require("promtool")
    done = run(promtool, "check", "rules", "--lint=all", "--lint-fatal", *RULES)
    assert (done.returncode, done.stderr) == (0, "")
    twice = tmp_path / "twice.yml"
    text = RULES[0].read_text(encoding="utf-8")
    twice.write_text(text + text.replace("groups:\n", "").replace("name: breakeven-", "name: again-"), encoding="utf-8")
    assert run(promtool, "check", "rules", "--lint=all", "--lint-fatal", twice).returncode != 0


@pytest.mark.real
def test_the_rules_do_what_their_tests_say(require: Require) -> None:
    done = run(require("promtool"), "test", "rules", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real
def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_is_silent(require: Require, tmp_path: Path) -> None:
    assert judged(failures(require, tmp_path / "never", "vector(0) > 1"), expected_none=False) == alert_names()
    assert judged(failures(require, tmp_path / "always", "vector(1)"), expected_none=True) == alert_names()


@pytest.mark.real
def test_every_recording_rule_has_a_test(require: Require, tmp_path: Path) -> None:
    said = failures(require, tmp_path, "vector(0) > 1")
    assert {name for name in record_names() if re.search(rf'expr: "[^"]*{name}\b', said)} == record_names()


def failures(require: Require, place: Path, expression: str) -> str:
    """What promtool says of the tests when every rule has this expression instead of its own."""
    shutil.copytree(PROMETHEUS, place / "prometheus")
    for path in (place / "prometheus" / "rules").glob("*.yml"):
        path.write_text(EXPRESSION.sub(f"{expression}\n", path.read_text(encoding="utf-8")), encoding="utf-8")
    done = run(require("promtool"), "test", "rules", *sorted((place / "prometheus" / "tests").glob("*.yml")))
    assert done.returncode == 1
    return done.stdout + done.stderr


def judged(said: str, *, expected_none: bool) -> set[str]:
    """Alerts of failed tests that expected none, or some."""
    found = re.findall(r"alertname: (\w+), time: .*\n +exp:\[(\])?", said)
    return {name for name, none in found if bool(none) == expected_none}


def test_rules_name_our_metrics_and_labels_only() -> None:
    known = {PREFIX + name for name in GAUGES} | {f"{PREFIX}{name}_total" for name in COUNTERS}
    labels = {label for _, names in (*GAUGES.values(), *COUNTERS.values()) for label in names}
    for path in RULES:
        for expression in EXPRESSION.findall(path.read_text(encoding="utf-8")):
            bare = re.sub(r"[\w]*:[\w:]+", "", expression)  # names of recorded series stand for rules that are checked themselves
            assert set(re.findall(r"\bbreakeven_\w+", bare)) - known == set()
            grouped = {label for names in re.findall(r"(?:without|by|on) \(([^)]*)\)", bare) for label in names.split(", ")}
            assert grouped - labels - ENVIRONMENT == set()
            assert set(re.findall(r"[{,]\s*(\w+)\s*[=!]", bare)) - labels - ENVIRONMENT == set()


def test_recorded_series_are_used_by_name() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in RULES)
    assert set(re.findall(r"\b\w+:breakeven_\w+:\w+", text)) == record_names()
    for name in record_names():
        level, metric, operation = name.split(":")
        assert (level.islower(), metric.startswith(PREFIX), operation.islower()) == (True, True, True), name


def test_the_hurried_copy_leaves_no_wait_of_minutes_and_changes_nothing_else() -> None:
    for path in RULES:
        text = path.read_text(encoding="utf-8")
        fast = hurried_rules(text)
        waits = r"(?m)^ +(?:keep_firing_)?for: .*\n|\[\w+\](?: offset \w+)?|> [\de* ]+$"
        assert re.sub(waits, "", fast) == re.sub(waits, "", text)
        assert re.findall(r" for: \d+[mhd]|\[\d+[mhd]\]|offset \d+[mhd]|3600|1800|e9", fast) == []


def test_the_table_of_alerts_is_that_of_the_rules() -> None:
    table = re.findall(r"^\| `(\w+)` \| (\w+) \|", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.M)
    text = "".join(path.read_text(encoding="utf-8") for path in RULES)
    assert sorted(table) == sorted(re.findall(r"- alert: (\w+)\n(?:.*\n)*? +severity: (\w+)", text))
    assert {name for name, _ in table} == alert_names()


@pytest.mark.real
def test_the_alertmanager_configuration_is_sound(require: Require) -> None:
    done = run(require("amtool"), "check-config", ALERTMANAGER)
    assert done.returncode == 0, done.stderr
    assert "3 receivers" in done.stdout


@pytest.mark.real
def test_the_receivers_in_its_comment_are_sound(require: Require, tmp_path: Path) -> None:
    """As a reader takes them over: without the comment signs, below ``receivers:``."""
    text = ALERTMANAGER.read_text(encoding="utf-8")
    example = "\n".join(line.removeprefix("#   ") for line in re.findall(r"^#   .*$", text, re.M))
    own = text.partition("\nreceivers:\n")[0] + "\nreceivers:\n  - name: on-call\n" + re.sub("^", "  ", example, flags=re.M)
    (tmp_path / "alertmanager.yml").write_text(own, encoding="utf-8")
    done = run(require("amtool"), "check-config", tmp_path / "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        (["alertname=BreakevenDown", "severity=critical"], "on-call"),
        (["alertname=BreakevenSourceStale", "severity=warning"], "team"),
        (["alertname=BreakevenBestSetupCheaper", "severity=info"], "budget"),
        (["alertname=Anything"], "team"),
    ],
)
def test_an_alert_goes_to_its_receiver(require: Require, labels: list[str], receiver: str) -> None:
    done = run(require("amtool"), "config", "routes", "test", f"--config.file={ALERTMANAGER}", *labels)
    assert (done.returncode, done.stdout.strip()) == (0, receiver)
