"""What is kept from one start to the next is what would be worked out; what is not ours, not whole or of other files is not read."""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import shutil
from collections.abc import Callable, Collection
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engine.fits import Fit
from engine.formats import WeightFormat
from engine.gpus import Gpu
from engine.ladders import market
from engine.models import ModelSpec
from engine.sizing import feasible_fits
from tracker import kept as kept_module
from tracker.answers.questions import tracked
from tracker.answers.recompute import Sizer, recompute
from tracker.facts.values import Facts
from tracker.kept import Kept, Ways, digest_of
from tracker.metrics.exposition import Renderer, assemble
from tracker.metrics.families import families
from tracker.paths import config_dir
from tracker.service.opening import open_book
from tracker.world import load_facts, load_world

CONFIG = config_dir()
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def facts() -> Facts:
    return load_facts(CONFIG, None)


@pytest.fixture(scope="module")
def ways(facts: Facts) -> Ways:
    """What can win of every tracked question."""
    world = load_world(CONFIG, None, facts)
    sizer = Sizer(world)
    for question in tracked(world):
        for model in question.models:
            sizer.ranked(world.model(model), market((), question.offers), question)
    return sizer.compiled


@pytest.fixture
def folder(tmp_path: Path, facts: Facts, ways: Ways) -> Path:
    """A folder that an earlier start has left."""
    found = tmp_path / "data" / "kept"
    Kept(found, CONFIG, None).keep(facts, ways)
    assert sorted(path.name for path in found.iterdir()) == ["facts", "ways"]
    return found


def test_what_is_kept_equals_what_is_worked_out(folder: Path, facts: Facts, ways: Ways) -> None:
    again = Kept(folder, CONFIG, None)
    found = again.facts()
    assert found == facts
    assert found is not facts
    assert again.ways() == ways
    assert sum(len(found) for compiled in ways.values() for found in compiled.ways.values()) > 50
    assert [getattr(found.catalogue, f.name) for f in fields(found.catalogue)] == [
        getattr(facts.catalogue, f.name) for f in fields(facts.catalogue)
    ]


def test_what_a_killed_start_has_left_goes_with_the_next_writing(tmp_path: Path, facts: Facts, ways: Ways) -> None:
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    (folder / ".facts-k1ll3d").write_bytes(b"half")
    Kept(folder, CONFIG, None).keep(facts, ways)
    assert sorted(path.name for path in folder.iterdir()) == ["facts", "ways"]


def test_a_start_with_what_is_kept_answers_as_one_without_and_sizes_one_gpu(
    folder: Path, facts: Facts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = load_world(CONFIG, None, facts)
    db = open_book(world, tmp_path, NOW)
    without = recompute(db, world, Sizer(world), NOW)
    assert without.answers and all(answer.setup is not None for answer in without.answers)
    sized: list[tuple[int, int]] = []

    def sizing(model: ModelSpec, gpus: Collection[Gpu], formats: Collection[WeightFormat], *how: Any) -> tuple[Fit, ...]:
        sized.append((len(gpus), len(formats)))
        return feasible_fits(model, gpus, tuple(formats), *how)

    monkeypatch.setattr("tracker.answers.recompute.feasible_fits", sizing)
    found = recompute(db, world, Sizer(world, Kept(folder, CONFIG, None).ways()), NOW)
    text = assemble(Renderer().lines(families(found)), "text")
    assert text == assemble(Renderer().lines(families(without)), "text")
    assert set(sized) == {(1, 1)}
    for answer, one in zip(found.answers, without.answers, strict=True):
        assert (answer.setup, answer.capacity, answer.break_even, answer.verdict) == (one.setup, one.capacity, one.break_even, one.verdict)
        assert answer.shown.rejected == one.shown.rejected != ()  # asked for now, so sized over all GPUs now
    db.dispose()


def test_fits_of_one_gpu_and_format_are_those_among_all(facts: Facts) -> None:
    world = load_world(CONFIG, None, facts)
    sizer, (question, *_) = Sizer(world), tracked(world)
    for name in question.models:
        every = sizer.fits(world.model(name), question.need, question.policy)
        for fit in {(fit.gpu, fit.weight_format): fit for fit in every}.values():
            assert sizer.beside(fit) == tuple(f for f in every if (f.gpu, f.weight_format) == (fit.gpu, fit.weight_format))


def test_a_first_start_finds_nothing(tmp_path: Path) -> None:
    none = Kept(tmp_path / "never" / "made", CONFIG, None)
    assert (none.facts(), none.ways()) == (None, {})
    assert not (tmp_path / "never").exists()


def test_what_is_there_already_is_not_written_again(folder: Path, facts: Facts, ways: Ways) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = Kept(folder, CONFIG, None)
    again.facts(), again.ways()
    again.keep(facts, ways)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of one's own to change."""
    shutil.copytree(CONFIG, tmp_path / "config", ignore=shutil.ignore_patterns("starter"))
    return tmp_path / "config"


@pytest.mark.parametrize("name", ["gpus.toml", "instances.csv", "models/kimi-k3.1-pro.toml", "throughput/{first}"])
def test_a_changed_fact_is_not_answered_from_before(config: Path, tmp_path: Path, name: str, facts: Facts, ways: Ways) -> None:
    folder = tmp_path / "kept"
    Kept(folder, config, None).keep(facts, ways)
    assert Kept(folder, config, None).facts() is not None
    path = config / name.format(first=sorted(os.listdir(config / "throughput"))[0])
    path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    changed = Kept(folder, config, None)
    assert (changed.facts(), changed.ways()) == (None, {})


def test_a_model_of_the_users_own_counts_as_a_change(tmp_path: Path) -> None:
    before = digest_of(CONFIG, tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "own.toml").write_text("", encoding="utf-8")
    assert digest_of(CONFIG, tmp_path) != before


def test_other_code_reads_nothing_of_it(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    for name in kept_module.CODE:
        source = kept_module.HERE.parent / name
        copy: Callable[..., Any] = shutil.copytree if source.is_dir() else shutil.copy
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        copy(source, package / name)
    monkeypatch.setattr(kept_module, "HERE", package / "tracker")
    before = digest_of(CONFIG, None)
    sizing = package / "engine" / "sizing.py"
    sizing.write_text(sizing.read_text(encoding="utf-8") + "# other\n", encoding="utf-8")
    assert digest_of(CONFIG, None) != before
    assert Kept(folder, CONFIG, None).facts() is None


def test_facts_that_change_while_they_are_read_are_not_kept(config: Path, tmp_path: Path, facts: Facts, ways: Ways) -> None:
    kept = Kept(tmp_path / "kept", config, None)
    (config / "gpus.toml").write_text("", encoding="utf-8")
    kept.keep(facts, ways)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    "spoil", [lambda body: body[:-1], lambda body: b"", lambda body: b"x" + body, lambda body: body[:200] + b"?" + body[201:]]
)
def test_a_damaged_file_is_not_read(folder: Path, spoil: Callable[[bytes], bytes]) -> None:
    path = folder / "facts"
    path.write_bytes(spoil(path.read_bytes()))
    assert Kept(folder, CONFIG, None).facts() is None


class Evil:
    """Runs a command where it is unpickled without care."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_nothing_is_called_that_a_file_names(folder: Path, tmp_path: Path) -> None:
    body = pickle.dumps(Evil(tmp_path / "called"))
    key = (folder / "facts").read_bytes().split(b"\n")[0]
    (folder / "facts").write_bytes(key + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    assert Kept(folder, CONFIG, None).facts() is None
    assert not (tmp_path / "called").exists()
    assert pickle.loads(body) is None  # it would have been called
    assert (tmp_path / "called").exists()


Logged = pytest.LogCaptureFixture


def told(fault: str) -> tuple[str, int, str]:
    """The one line about it."""
    line = f"what was kept is not used, and worked out again at every start: {fault}; take it away, and it is made anew"
    return "breakeven.kept", logging.WARNING, line


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_that_others_may_write_is_not_read_and_put_right(folder: Path, mode: int, caplog: Logged, facts: Facts, ways: Ways) -> None:
    (folder / "facts").chmod(mode)
    kept = Kept(folder, CONFIG, None)
    assert kept.facts() is None
    assert kept.ways() != {}
    assert caplog.record_tuples == [told(f"{folder / 'facts'} may be written by others (mode {mode:o})")]
    kept.keep(facts, ways)
    assert Kept(folder, CONFIG, None).facts() == facts
    assert len(caplog.records) == 1


def test_nothing_is_read_from_a_folder_that_others_may_write_and_it_is_said_once(folder: Path, caplog: Logged) -> None:
    folder.chmod(0o770)
    kept = Kept(folder, CONFIG, None)
    assert (kept.facts(), kept.ways()) == (None, {})
    assert caplog.record_tuples == [told(f"{folder} may be written by others (mode 770)")]


def test_what_is_missing_old_or_damaged_is_nobodys_to_mend_and_not_said(folder: Path, config: Path, caplog: Logged) -> None:
    (folder / "ways").unlink()
    (folder / "facts").write_bytes(b"half")
    for kept in (Kept(folder, CONFIG, None), Kept(folder / "none", CONFIG, None), Kept(folder, config, None)):
        assert (kept.facts(), kept.ways()) == (None, {})
    assert caplog.records == []


def test_a_link_is_not_followed(folder: Path, tmp_path: Path, caplog: Logged) -> None:
    (folder / "facts").rename(tmp_path / "elsewhere")
    (folder / "facts").symlink_to(tmp_path / "elsewhere")
    assert Kept(folder, CONFIG, None).facts() is None
    assert caplog.record_tuples == [told(f"{folder / 'facts'} is a link, or no file")]


def test_another_accounts_file_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: Logged) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert Kept(folder, CONFIG, None).facts() is None
    assert caplog.record_tuples == [told(f"{folder} belongs to another account")]


def test_a_folder_that_cannot_be_made_is_nobodys_trouble(tmp_path: Path, facts: Facts, ways: Ways) -> None:
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    kept = Kept(tmp_path / "file" / "kept", CONFIG, None)
    kept.keep(facts, ways)
    assert (kept.facts(), kept.ways()) == (None, {})
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir() if path.is_file()} == {"file": "mine"}
