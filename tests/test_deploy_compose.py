"""compose.yaml, Dockerfile and Grafana's provisioning: valid, pinned, and each path, host, port and variable is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from deployed import DEPLOY, document, program
from processes import breakeven
from repository import ROOT, files

from tracker.alerting.rules import load_alerts
from tracker.config import load_config
from tracker.paths import config_dir

Require = Callable[[str], Path]
COMPOSE, DOCKERFILE, EXAMPLE = DEPLOY / "compose.yaml", DEPLOY / "Dockerfile", DEPLOY / ".env.example"
DATABASES = ("sqlite", "postgres")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = document(COMPOSE)["services"]
    return found


SECRETS = ("url_env", "secret_env", "user_env", "password_env")


def variables() -> dict[str, str]:
    """Name to value of .env.example; those that are commented out too."""
    return dict(re.findall(r"^#?([A-Z_]+)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.M))


def mounts(service: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(source, target) of every volume, for each database."""
    for volume in service.get("volumes", ()):
        for database in DATABASES:
            source, target = volume.replace("${DATABASE:-sqlite}", database).split(":")[:2]
            yield source, target


@pytest.mark.real
def test_it_follows_the_compose_specification(require: Require, tmp_path: Path) -> None:
    check = [program("check-jsonschema", require), "--builtin-schema", "vendor.compose-spec"]
    assert subprocess.run([*check, COMPOSE], capture_output=True, text=True, check=False).returncode == 0
    broken = tmp_path / "compose.yaml"
    broken.write_text(COMPOSE.read_text(encoding="utf-8").replace("healthcheck:", "health_check:"), encoding="utf-8")
    assert subprocess.run([*check, broken], capture_output=True, text=True, check=False).returncode == 1


def test_every_mounted_path_exists(services: dict[str, dict[str, Any]]) -> None:
    found = {source for service in services.values() for source, _ in mounts(service)}
    assert {source for source in found if source.startswith(".") and not (DEPLOY / source).is_dir()} == set()
    assert {source for source in found if not source.startswith(".")} == set(document(COMPOSE)["volumes"])
    assert (ROOT / "deploy" / services["tracker"]["build"]["context"] / services["tracker"]["build"]["dockerfile"]).is_file()


def test_every_image_is_pinned_and_ours_is_this_version(services: dict[str, dict[str, Any]]) -> None:
    assert [s["image"] for s in services.values() if not re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", s["image"])] == []
    assert services["tracker"]["image"] == f"breakeven:{PROJECT['version']}"


def test_every_service_has_a_health_check_and_restarts(services: dict[str, dict[str, Any]]) -> None:
    assert {name for name, service in services.items() if "healthcheck" not in service} == {"tracker"}
    assert re.search(r"^HEALTHCHECK ", DOCKERFILE.read_text(encoding="utf-8"), re.M)
    assert {service["restart"] for service in services.values()} == {"unless-stopped"}
    assert {name for service in services.values() for name in service.get("depends_on", ())} <= set(services)


def test_ports_are_published_on_this_machine_only(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) == 4
    assert all(port.startswith("${BIND_ADDRESS:-127.0.0.1}:") for port in ports)


def test_variables_are_those_of_the_example_with_the_same_defaults() -> None:
    text = COMPOSE.read_text(encoding="utf-8")
    used = dict(re.findall(r"\$\{(\w+):-([^}]*)\}", text))
    assert text.count("$") == len(re.findall(r"\$\{\w+:-", text))  # each has a default: .env is optional
    hooks = {getattr(route, name) for route in load_alerts(config_dir()).routes.values() for name in SECRETS if hasattr(route, name)}
    assert set(variables()) == set(used) | {"COMPOSE_PROFILES"} | hooks
    assert {name: value for name, value in variables().items() if name in used and name != "DATABASE"} == {
        name: value for name, value in used.items() if name != "DATABASE"
    }
    assert (variables()["COMPOSE_PROFILES"], variables()["DATABASE"]) == ("postgres", "postgres")


@pytest.mark.parametrize("database", DATABASES)
def test_the_mounted_settings_are_sound(database: str) -> None:
    settings = load_config(config_dir(), DEPLOY / "settings" / database).settings
    assert (settings.web.host, settings.web.port) == ("0.0.0.0", 10733)
    assert settings.database.url == ("" if database == "sqlite" else "postgresql+psycopg://breakeven@postgres/breakeven")


def test_hosts_are_services_and_ports_are_theirs(services: dict[str, dict[str, Any]]) -> None:
    """Of prometheus.yml, the data sources and the database address."""
    inner = {name: {port.rsplit(":", 1)[1] for port in service.get("ports", ())} for name, service in services.items()}
    inner["postgres"], inner["localhost"] = {"5432"}, inner["prometheus"]
    scrape = document(DEPLOY / "prometheus" / "prometheus.yml")
    jobs = scrape["scrape_configs"] + scrape["alerting"]["alertmanagers"]
    targets = [target for job in jobs for group in job["static_configs"] for target in group["targets"]]
    provisioned = document(DEPLOY / "grafana" / "provisioning" / "datasources" / "breakeven.yaml")["datasources"]
    sources = [source["url"].removeprefix("http://") for source in provisioned]
    assert {address for address in targets + sources if address.split(":")[1] not in inner[address.split(":")[0]]} == set()
    assert {address.split(":")[0] for address in sources} == {"prometheus", "alertmanager", "postgres"}


def test_grafana_is_given_what_its_provisioning_reads(services: dict[str, dict[str, Any]]) -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    sources = document(provisioning / "datasources" / "breakeven.yaml")["datasources"]
    (provider,) = document(provisioning / "dashboards" / "breakeven.yaml")["providers"]
    mounted = {target: source for source, target in mounts(services["grafana"])}
    assert mounted[provider["options"]["path"]] == "./grafana/dashboards"
    assert mounted["/etc/grafana/provisioning"] == "./grafana/provisioning"
    assert [source["uid"] for source in sources] == ["prometheus", "alertmanager", "postgres"]
    assert [source["name"] for source in sources if source.get("isDefault")] == ["Prometheus"]
    wanted = set(re.findall(r": \$(\w+)", (provisioning / "datasources" / "breakeven.yaml").read_text(encoding="utf-8")))
    assert wanted == {"GRAFANA_DATABASE_PASSWORD"}
    assert wanted <= set(services["grafana"]["environment"])


def test_passwords_of_others_are_kept_from_the_tracker(services: dict[str, dict[str, Any]]) -> None:
    hidden = {name for name, value in services["tracker"]["environment"].items() if value == ""}
    assert hidden == {name for name in variables() if name.endswith("PASSWORD") and not name.startswith("BREAKEVEN_")}


# --- the image ------------------------------------------------------------------------------------------------------------------


@pytest.mark.real
def test_the_dockerfile_passes_hadolint(require: Require, tmp_path: Path) -> None:
    hadolint = program("hadolint", require)
    done = subprocess.run([hadolint, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd / && sudo pip install x\n", encoding="utf-8")
    assert subprocess.run([hadolint, tmp_path / "Dockerfile"], capture_output=True, check=False).returncode == 1


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments) of the last stage of the Dockerfile."""
    lines = re.sub(r"\\\n", " ", DOCKERFILE.read_text(encoding="utf-8")).splitlines()
    found = [(word, rest) for line in lines if line and line[0] not in "#" for word, _, rest in [line.partition(" ")]]
    last = max(place for place, (word, _) in enumerate(found) if word == "FROM")
    return found[last:]


def test_the_image_runs_without_rights_and_asks_its_own_health(tmp_path: Path) -> None:
    last = dict(instructions())
    assert last["USER"] == "10001:10001"
    assert [word for word, _ in instructions()].index("USER") > [word for word, _ in instructions()].index("RUN")
    entry, command = json.loads(last["ENTRYPOINT"]), json.loads(last["CMD"])
    health = json.loads(last["HEALTHCHECK"].partition("CMD ")[2])
    assert entry == ["breakeven"] and health[0] == "breakeven"
    for words in (command[:1], health[1:]):
        assert breakeven(tmp_path, *words, "--help").returncode == 0
    assert last["EXPOSE"] == str(load_config(config_dir()).settings.web.port)


def test_the_lock_is_installed_with_hashes_and_from_wheels_only() -> None:
    text = DOCKERFILE.read_text(encoding="utf-8")
    assert re.search(r"pip wheel .*--require-hashes --only-binary :all: --no-deps .*--requirement requirements\.lock$", text, re.M)
    assert len(re.findall(r"\bpip\b[^\n]* (?:install|wheel) ", text)) == len(re.findall(r"--no-index|--require-hashes", text)) == 4


@pytest.mark.packaging
def test_what_reaches_the_build_is_enough_for_the_wheel(tmp_path: Path) -> None:
    """The context without what Dockerfile.dockerignore keeps out, built as the Dockerfile does."""
    allowed = [line[1:] for line in (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines() if line.startswith("!")]
    sent = [name for name in files() if any(fnmatch(name, rule) or name.startswith(f"{rule}/") for rule in allowed)]
    for name in sent:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    assert {name.split("/")[0] for name in sent} == {*allowed}
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", "own", "."]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "own").iterdir()] == [f"breakeven-{PROJECT['version']}-py3-none-any.whl"]
