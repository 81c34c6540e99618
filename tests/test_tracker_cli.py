"""The command line: what each command answers, as a table and as JSON, and that what a user can mend is one line."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from homes import Told, run
from processes import COMMAND, breakeven, environment
from upstream import Upstream
from worlds import SIX, serve_market, write_user_config

from tracker.database.handle import only_daemon, open_database

pytestmark = pytest.mark.loopback
MODELS = {"kimi-k3.1-pro", "muse-spark-open"}
# Of a month before any price of ours, so that the lines are priced at what is listed now: 2 + 2 + 10 = $14 for the first.
USAGE = (
    "day,provider,model,input,cache_read,output\n2019-03-04,moonshot,kimi-k3.1-pro,1000000,10000000,1000000\n2019-03-05,nobody,x,1,0,0\n"
)
RENTALS = "start,end,provider,gpu,gpu_count,price_per_hour\n2019-03-04T00:00:00Z,2019-03-05T12:00:00Z,cloud,b300,8,55.52\n"


@pytest.fixture(scope="module")
def market() -> Iterator[Upstream]:
    with Upstream() as upstream:
        serve_market(upstream)
        yield upstream


@pytest.fixture(scope="module")
def home(market: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's directories after all six sources were collected."""
    folder = tmp_path_factory.mktemp("home")
    write_user_config(folder / "config", market.url)
    told = run(folder, "collect")
    assert (told.code, told.err) == (0, "")
    return folder


@pytest.fixture
def own_home(home: Path, tmp_path: Path) -> Path:
    """A copy that may be changed."""
    shutil.copytree(home, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def records(tmp_path: Path) -> tuple[str, ...]:
    """The options of a report."""
    (tmp_path / "usage.csv").write_text(USAGE, encoding="utf-8")
    (tmp_path / "rentals.csv").write_text(RENTALS, encoding="utf-8")
    return ("--month", "2019-03", "--usage", str(tmp_path / "usage.csv"), "--rentals", str(tmp_path / "rentals.csv"))


def failed(told: Told, *parts: str) -> None:
    """It says what is wrong in one line on standard error, and nothing else."""
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith("breakeven: ")
    assert told.err.count("\n") == 1
    assert "Traceback" not in told.err
    for part in parts:
        assert part in told.err


# --- answers --------------------------------------------------------------------------------------------------------------


def test_cheapest_names_the_setup_and_the_best_on_every_gpu(home: Path) -> None:
    """Seven of RunPod's B300 at $6.94 hold kimi-k3.1-pro: 7 x 6.94 = $48.58, times 730 = $35,463.40."""
    found = run(home, "cheapest", "kimi-k3.1-pro", "--json").json()
    setup = found["setup"]
    assert (found["model"], setup["usd_per_hour"], setup["gpu_count_rented"], setup["fresh"]) == ("kimi-k3.1-pro", "48.58", 7, True)
    assert (Decimal(setup["usd_per_month"]), setup["offer"]["provider"]) == (Decimal("35463.40"), "runpod")
    assert found["per_gpu"][0]["usd_per_hour"] == "48.58"
    assert Decimal(found["indicative"]["usd_per_hour"]) <= Decimal("48.58")
    text = run(home, "cheapest", "kimi-k3.1-pro").out
    assert "Kimi K3.1 Pro: $48.58/h, $35,463.40 a month: 7 x nvidia-b300-sxm-288" in text


def test_cheapest_answers_for_what_is_asked(home: Path) -> None:
    """With room for a million sessions nothing holds it; with the smallest context it takes no more than by default."""
    small = run(home, "cheapest", "muse-spark-open", "--context", "1", "--json").json()["setup"]
    usual = run(home, "cheapest", "muse-spark-open", "--json").json()["setup"]
    assert Decimal(small["usd_per_hour"]) <= Decimal(usual["usd_per_hour"])
    nothing = run(home, "cheapest", "muse-spark-open", "--sessions", "1000000")
    assert nothing.code == 1
    assert nothing.out.startswith("Muse Spark Open: no answer: no GPU we know holds it")


def test_breakeven_shows_the_volume_and_every_input(home: Path) -> None:
    """$35,463.40 a month over $0.12 a turn are 295,528 turns of 260,000 tokens; $7,560 a month pay the API."""
    found = run(home, "breakeven", "kimi-k3.1-pro", "--json").json()
    assert (Decimal(found["rate"]["usd_per_month"]), found["verdict"]["answer"]) == (7560, "api")
    assert round(Decimal(found["break_even"]["requests"]), 2) == Decimal("295528.33")
    assert round(Decimal(found["break_even"]["tokens"])) == 76_837_366_667
    text = run(home, "breakeven", "kimi-k3.1-pro").out
    assert "Kimi K3.1 Pro: break-even 76.8 billion tokens a month (295,528 requests)" in text
    assert "the API bill is $7,560.00 a month against $35,463.40 for one replica" in text
    for line in ("rent of a replica (C)", "API price (p)", "break-even volume (V*)", "(C + f) / (p - v) * 10**6"):
        assert line in text


def test_offers_are_sorted_and_can_be_narrowed(home: Path) -> None:
    found = run(home, "offers", "--gpu", "nvidia-b300-sxm-288", "--provider", "runpod", "--json").json()
    assert {(o["provider"], o["gpu"], o["usd_per_hour"], o["fresh"]) for o in found} == {
        ("runpod", "nvidia-b300-sxm-288", "6.94", True), ("runpod", "nvidia-b300-sxm-288", "55.52", True),
    }  # fmt: skip
    prices = [Decimal(o["usd_per_hour"]) / o["gpu_count"] for o in run(home, "offers", "--limit", "0", "--json").json()]
    assert prices == sorted(prices)
    assert len(run(home, "offers", "--limit", "1", "--json").json()) == 1
    assert {o["tier"] for o in run(home, "offers", "--tier", "spot", "--limit", "0", "--json").json()} == {"spot"}
    text = run(home, "offers", "--gpu", "nvidia-b300-sxm-288", "--provider", "runpod").out
    assert "2 of 2 offers" in text
    assert "6.9400" in text


def test_rates_are_native_and_an_unknown_price_is_a_question_mark(home: Path) -> None:
    found = run(home, "rates", "muse-spark-open", "--json").json()
    together = next(r for r in found if r["provider"] == "together" and r["source"] == "genai_prices")
    assert (together["native"]["input"], together["native"]["cache_read"], together["native"]["cache_write_5m"]) == ("1.25", "0.15", None)
    text = run(home, "rates", "muse-spark-open").out
    (line,) = (row for row in text.splitlines() if row.strip().startswith("together") and "genai_prices" in row)
    assert line.split()[2:7] == ["1.25", "0.15", "?", "?", "4.25"]
    assert run(home, "rates", "muse-spark-open", "--announced", "--json").json() == []


def test_sources_are_one_line_each(home: Path) -> None:
    found = {s["id"]: s for s in run(home, "sources", "--json").json()}
    assert {name for name, s in found.items() if s["status"] == "ok"} == set(SIX)
    assert {s["off_reason"] for name, s in found.items() if name not in SIX} <= {"switched off in sources.toml"}
    lines = run(home, "sources").out.splitlines()
    assert len(lines) == len(found)
    assert any(re.fullmatch(r"runpod: last read \d+ (s|min) ago, \d+ prices", line) for line in lines)


def test_sources_lists_the_names_nothing_maps(own_home: Path) -> None:
    with sqlite3.connect(own_home / "data" / "breakeven.db") as db:
        db.execute("insert into unmapped values ('runpod', 'gpu', 'NVIDIA Z9 [bold]', '2026-11-01 00:00:00', '2026-11-02 00:00:00')")
    db.close()
    names = run(own_home, "sources", "--unmapped", "--json").json()
    assert ("runpod", "gpu", "NVIDIA Z9 [bold]") in {(n["source"], n["kind"], n["name"]) for n in names}
    assert "NVIDIA Z9 [bold]" in run(own_home, "sources", "--unmapped").out  # printed as it is, not as markup


def test_check_counts_what_it_read(home: Path) -> None:
    found = run(home, "check", "--json").json()
    assert (found["user_config"], found["sources"] >= len(SIX), found["models"] >= len(MODELS)) == (str(home / "config"), True, True)
    text = run(home, "check").out
    assert f"with {home / 'config'} over it is sound: " in text
    assert f"{found['gpus']} gpus" in text


def test_collect_says_what_came_of_each_source(own_home: Path, market: Upstream) -> None:
    again = run(own_home, "collect", "--json").json()
    assert {(report["source"], report["status"]) for report in again} == {(name, "unchanged") for name in SIX}
    assert re.fullmatch(r"runpod: ok, \d+ prices, \d+ skipped, \d+ bytes, \d+\.\d s\n", run(own_home, "collect", "runpod", "--force").out)
    saved = run(own_home, "collect", "ecb", "--save", "--force")
    assert saved.out.splitlines()[-1] == f"bodies kept in {own_home / 'data' / 'saved'}"
    kept = own_home / "data" / "saved" / "ecb"
    assert sorted(path.suffix for path in kept.iterdir()) == [".body", ".headers"]
    assert b"USD" in next(kept.glob("*.body")).read_bytes()


def test_a_source_that_fails_or_is_off_makes_itself_known(own_home: Path) -> None:
    write_user_config(own_home / "config", "http://127.0.0.1:9")  # nobody listens there
    told = run(own_home, "collect", "runpod")
    assert (told.code, told.err) == (1, "")
    assert re.match(r"runpod: failed after \d+\.\d s: ", told.out)
    (report,) = json.loads(run(own_home, "collect", "runpod", "--json").out)
    assert (report["status"], report["rows"]) == ("failed", 0)
    off = next(s["id"] for s in run(own_home, "sources", "--json").json() if not s["enabled"])
    assert run(own_home, "collect", off) == Told(0, f"{off}: off (switched off in sources.toml)\n", "")


def test_a_report_prints_lines_that_add_up(home: Path, records: tuple[str, ...], tmp_path: Path) -> None:
    """36 hours of $55.52 are 24 and 12: $1,332.48 and $666.24."""
    found = run(home, "report", *records, "--csv", str(tmp_path / "out.csv"), "--json").json()
    assert (found["api_usd"], found["rental_usd"], found["api_less_rental_usd"]) == ("14.00", "1998.72", "-1984.72")
    assert (found["lines_without_a_figure"], found["records_of_other_months"]) == (1, 0)
    assert [line["usd"] and Decimal(line["usd"]) for line in found["lines"]] == [14, None, Decimal("1332.48"), Decimal("666.24")]
    text = run(home, "report", *records).out
    for line in ("api usd: 14.00", "rental usd: 1998.72", "lines without a figure: 1"):
        assert line in text.splitlines()
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        amounts = [row[6] for row in csv.reader(file)]
    assert amounts == ["usd", "14.00", "?", "1332.48", "666.24", "14.00", "1998.72"]


def test_a_book_goes_out_and_in_and_twice_is_once(home: Path, tmp_path: Path) -> None:
    out = run(home, "export", "book", str(tmp_path / "book"), "--json").json()
    assert out["offers"] > 10
    (tmp_path / "new").mkdir()
    first = run(tmp_path / "new", "import", "book", str(tmp_path / "book"), "--json").json()
    again = run(tmp_path / "new", "import", "book", str(tmp_path / "book"), "--json").json()
    assert (first["rows"], again["rows"], again["new_points"]) == (out["offers"] + out["rates"], first["rows"], 0)
    assert "rows read, 0 new price points" in run(tmp_path / "new", "import", "book", str(tmp_path / "book")).out


ANSWERS = [
    ("check",),
    ("sources",),
    ("sources", "--unmapped"),
    ("cheapest", "kimi-k3.1-pro"),
    ("breakeven", "muse-spark-open"),
    ("offers",),
    ("rates", "kimi-k3.1-pro"),
    ("rates", "kimi-k3.1-pro", "--announced"),
]


@pytest.mark.parametrize("words", ANSWERS, ids=" ".join)
def test_every_answer_is_text_for_people_and_json_for_programs(home: Path, words: tuple[str, ...]) -> None:
    shown, parsed = run(home, *words), run(home, *words, "--json")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.strip()
    assert "\x1b" not in shown.out  # no colours where no terminal is
    json.loads(parsed.out, parse_float=lambda text: pytest.fail(f"{text} is a float") if words[0] in ("offers", "rates") else float(text))


def test_a_first_command_makes_the_book_itself(tmp_path: Path) -> None:
    assert run(tmp_path, "sources").code == 0
    assert (tmp_path / "data" / "breakeven.db").is_file()
    assert not (tmp_path / "config").exists()


# --- what a user can mend -------------------------------------------------------------------------------------------------

UNKNOWN = [
    (("collect", "runpot"), "no source named 'runpot' (did you mean runpod?); breakeven sources lists them"),
    (("cheapest", "kimi-k3.1-pr"), "no model named 'kimi-k3.1-pr' (did you mean kimi-k3.1-pro?)"),
    (("breakeven", "Muse-Spark-Open"), "no model named 'Muse-Spark-Open' (did you mean muse-spark-open?)"),
    (("rates", "muse-spark-opne"), "no model named 'muse-spark-opne' (did you mean muse-spark-open?)"),
    (("offers", "--gpu", "nvidia-b300-sxm-28"), "no GPU named 'nvidia-b300-sxm-28' (did you mean nvidia-b300-sxm-288?)"),
    (("offers", "--provider", "runpot"), "no offer of provider 'runpot' (did you mean runpod?)"),
    (("offers", "--tier", "ondemand"), "no tier named 'ondemand' (did you mean on_demand?)"),
    (("cheapest", "kimi-k3.1-pro", "--trust", "data-center"), "no trust named 'data-center' (did you mean datacenter?)"),
    (("cheapest", "kimi-k3.1-pro", "--policy", "swift"), "no policy named 'swift' (did you mean swfte?)"),
    (("breakeven", "kimi-k3.1-pro", "--workload", "agent-turn"), "no workload named 'agent-turn' (did you mean agent-turns?)"),
    (("cheapest", "a\nb"), r"no model named 'a\nb'"),
    (("report", "--month", "2026-11"), "report needs --usage or --rentals, or both"),
    (("report", "--month", "2026-13", "--usage", "x"), "--month '2026-13' is no month; write it as 2026-11"),
    (("report", "--month", "9999-12", "--usage", "x"), "--month '9999-12' is no month; write it as 2026-11"),
    (("report", "--month", "2026-11", "--usage", "missing.csv"), "missing.csv: cannot be read: No such file or directory"),
    (("report", "--month", "2026-11", "--rentals", "/"), "/: cannot be read: Is a directory"),
    (("import", "book", "/nowhere"), "/nowhere: holds neither offers.csv nor rates.csv; breakeven export book writes them"),
]


@pytest.mark.parametrize(("words", "message"), UNKNOWN, ids=[" ".join(words) for words, _ in UNKNOWN])
def test_what_does_not_exist_is_one_line_with_the_closest_name(home: Path, words: tuple[str, ...], message: str) -> None:
    failed(run(home, *words), message)
    failed(run(home, *words, "--json"), message)


def test_a_bad_cell_is_named(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "usage.csv"
    path.write_text(USAGE + "2019-03-06,moonshot,kimi-k3.1-pro,many,0,0\n", encoding="utf-8")
    failed(run(home, "report", "--month", "2019-03", "--usage", str(path)), f"{path}: line 4: input: expected a whole number")


def test_a_report_that_cannot_be_written_says_so(home: Path, records: tuple[str, ...], tmp_path: Path) -> None:
    failed(run(home, "report", *records, "--csv", str(tmp_path / "nowhere" / "out.csv")), "No such file or directory")


def test_a_bad_book_is_named_and_leaves_the_book_alone(own_home: Path, tmp_path: Path) -> None:
    assert run(own_home, "export", "book", str(tmp_path / "book")).code == 0
    path = tmp_path / "book" / "offers.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text(
        "\n".join([*lines, lines[-1].replace(",on_demand,", ",always,").replace(",spot,", ",always,")]) + "\n", encoding="utf-8"
    )
    failed(run(own_home, "import", "book", str(tmp_path / "book")), f"offers.csv: line {len(lines) + 1}: tier: expected one of on_demand")


def test_a_book_that_cannot_be_written_says_so(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failed(run(home, "export", "book", str(tmp_path / "file")), f"{tmp_path / 'file'}: is a file; name a folder")


CONFIGS = [
    ("tracker.toml", "[web\n", "tracker.toml: not valid TOML: "),
    ("tracker.toml", "[web]\nprot = 1\n", "tracker.toml: [web] prot: unknown key (did you mean port?)"),
    ("sources.toml", "[runpod]\nkind = 'rent'\n", "sources.toml: [runpod] base_url: Field required"),
    ("workloads.toml", "[mine]\n", "workloads.toml: [mine] name: is missing"),
    ("gpus.toml", "[mine]\n", "gpus.toml: [mine] "),
]


@pytest.mark.parametrize(("name", "content", "message"), CONFIGS)
def test_a_wrong_configuration_stops_every_command(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / name).write_text(content, encoding="utf-8")
    for words in (("check",), ("sources", "--json"), ("run",), ("cheapest", "kimi-k3.1-pro")):
        failed(run(tmp_path, *words), str(tmp_path / "config" / message))
    assert not (tmp_path / "data").exists()


def test_a_configuration_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "config" / "tracker.toml").mkdir(parents=True)
    failed(run(tmp_path, "check"), "tracker.toml: cannot be read: Is a directory")


# --- the database ---------------------------------------------------------------------------------------------------------

READERS = (("sources",), ("offers", "--json"), ("cheapest", "kimi-k3.1-pro"), ("collect", "runpod"), ("run", "--port", "0"))


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_database_that_is_none_is_one_line(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "breakeven.db").write_bytes(b"no database " * 1000)
    failed(run(tmp_path, *words), "cannot be opened: file is not a database")


def test_a_damaged_database_is_one_line(own_home: Path) -> None:
    path = own_home / "data" / "breakeven.db"
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    failed(run(own_home, "offers"), "malformed")


def test_a_database_that_is_a_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data" / "breakeven.db").mkdir(parents=True)
    failed(run(tmp_path, "sources"), "unable to open database file")


def test_a_data_directory_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    failed(run(tmp_path, "sources"), "data")


def test_a_schema_from_the_future_is_one_line(own_home: Path) -> None:
    with sqlite3.connect(own_home / "data" / "breakeven.db") as db:
        db.execute("update alembic_version set version_num = '9999'")
    db.close()
    failed(run(own_home, "sources"), "has schema 9999, which is newer than this program; install the newer breakeven")


def test_the_password_of_a_database_is_not_printed(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    for url in ("postgresql+psycopg://user:s3cret@127.0.0.1:9/book", "nonsense://user:s3cret@host/book"):
        (tmp_path / "config" / "tracker.toml").write_text(f'[database]\nurl = "{url}"\n', encoding="utf-8")
        told = run(tmp_path, "sources")
        failed(told)
        assert "s3cret" not in told.err


def test_who_would_write_beside_a_daemon_is_told_which(own_home: Path, tmp_path: Path) -> None:
    assert run(own_home, "export", "book", str(tmp_path / "book")).code == 0
    db = open_database(f"sqlite:///{own_home / 'data' / 'breakeven.db'}")
    with only_daemon(db):
        for words in (("import", "book", str(tmp_path / "book")), ("collect", "runpod"), ("run", "--port", "0")):
            failed_by_lock = run(own_home, *words)
            assert failed_by_lock.code == 1
            assert f"another breakeven (process {os.getpid()}) runs on" in failed_by_lock.err
        assert run(own_home, "offers").code == 0  # reading is free
    db.dispose()


# A user who may not write. Root may write anywhere, unless that power is taken away.
POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.name == "posix" and os.geteuid() == 0 else ()


@pytest.mark.skipif(bool(POWERLESS) and shutil.which("setpriv") is None, reason="root needs setpriv to see a read-only directory")
def test_a_read_only_data_directory_is_one_line(own_home: Path) -> None:
    data = own_home / "data"
    for path in (*data.iterdir(), data):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        for words in (("offers",), ("collect", "ecb"), ("run", "--port", "0")):
            command = [*POWERLESS, *COMMAND, *words]
            told = subprocess.run(
                command, env=environment(own_home), capture_output=True, text=True, timeout=120, cwd=own_home, check=False
            )
            failed(Told(told.returncode, told.stdout, told.stderr), "cannot be opened: attempt to write a readonly database")
        nowhere = environment(own_home) | {"BREAKEVEN_DATA": str(data / "below")}
        command = [*POWERLESS, *COMMAND, "sources"]
        told = subprocess.run(command, env=nowhere, capture_output=True, text=True, timeout=120, cwd=own_home, check=False)
        failed(Told(told.returncode, told.stdout, told.stderr), "Permission denied")
    finally:
        data.chmod(0o755)


# --- usage ----------------------------------------------------------------------------------------------------------------

WRONG = [
    ("--nonsense",), ("nonsense",), ("cheapest",), ("offers", "--limit", "-1"), ("offers", "--limit", "many"), ("run", "--port", "70000"),
    ("report",), ("cheapest", "kimi-k3.1-pro", "--context", "-1"), ("export",), ("import", "book"), ("check", "extra"),
]  # fmt: skip


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_wrong_usage_is_exit_code_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    told = run(tmp_path, *words)
    assert told.code == 2
    assert "Traceback" not in told.err
    assert not (tmp_path / "data").exists()


COMMANDS = (
    "run", "collect", "sources", "cheapest", "breakeven", "offers", "rates", "report", "check", "export book", "import book",
)  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(tmp_path: Path, name: str) -> None:
    told = run(tmp_path, *name.split(), "--help")
    assert (told.code, told.err) == (0, "")
    assert name in told.out
    assert ("--json" in told.out) == (name != "run")


def test_help_lists_the_commands(tmp_path: Path) -> None:
    told = run(tmp_path, "--help")
    assert told.code == 0
    for name in COMMANDS:
        assert re.search(rf"\b{name.split()[0]}\b", told.out)


# --- as a process ---------------------------------------------------------------------------------------------------------


def test_an_error_has_its_exit_code_in_a_shell_too(home: Path) -> None:
    told = breakeven(home, "cheapest", "kimi-k3.1-prod")
    assert (told.returncode, told.stdout, told.stderr.count("\n")) == (1, "", 1)
    assert "did you mean kimi-k3.1-pro?" in told.stderr


@pytest.mark.parametrize("words", [("offers", "--limit", "0"), ("offers", "--limit", "0", "--json"), ("check",), ("sources", "--json")])
def test_a_reader_that_has_seen_enough_gets_no_complaint(home: Path, words: tuple[str, ...]) -> None:
    """As in ``breakeven offers | head -1``, where the pipe closes after the first line, or before it."""
    for lines in (1, 0):
        process = subprocess.Popen(
            [*COMMAND, *words], env=environment(home), cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        for _ in range(lines):
            assert process.stdout.readline()
        process.stdout.close()
        with process.stderr:
            assert process.stderr.read() == ""
        assert process.wait(60) in (0, 1)


def test_a_table_in_a_pipe_is_wide_enough_for_whole_figures(home: Path) -> None:
    told = breakeven(home, "cheapest", "kimi-k3.1-pro", env={"COLUMNS": "40"})
    assert (told.returncode, told.stderr) == (0, "")
    assert re.search(r"48\.58\s+35,463\.40", told.stdout)
