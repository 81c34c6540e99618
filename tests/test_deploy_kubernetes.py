"""The Kubernetes manifests: rendered by kubectl, valid against the API's schemas, with the rules of deploy/prometheus in them."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deployed import DEPLOY, RULES, document, module, program

Require = Callable[[str], Path]
KUBERNETES = DEPLOY / "kubernetes"
MONITORING = KUBERNETES / "components" / "monitoring"
OPERATOR = {"ServiceMonitor", "PrometheusRule"}  # not of Kubernetes itself: no schema
PLAIN = {"Namespace", "ServiceAccount", "ConfigMap", "Service", "PersistentVolumeClaim", "Deployment"}
OVERLAYS = {"plain": PLAIN, "monitored": PLAIN | OPERATOR, "postgres": PLAIN - {"PersistentVolumeClaim"} | OPERATOR}


@pytest.fixture(scope="module")
def kubectl() -> Path:
    """kubectl of 1.21 or later, whose kustomize knows components; no package of Debian or PyPI brings it, so it may be absent."""
    found = shutil.which("kubectl")
    if not found:
        pytest.skip("needs kubectl 1.21 or later")
    said = subprocess.run([found, "version", "--client", "--output=json"], capture_output=True, text=True, check=False)
    client = json.loads(said.stdout or "{}").get("clientVersion", {})
    version = int(client.get("major", 0)), int(client.get("minor", "0").rstrip("+"))
    if version < (1, 21):
        pytest.skip(f"needs kubectl 1.21 or later, found {version}")
    return Path(found)


def rendered(kubectl: Path, overlay: str) -> str:
    """An overlay as YAML."""
    done = subprocess.run([kubectl, "kustomize", KUBERNETES / "overlays" / overlay], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def render(kubectl: Path, overlay: str) -> list[dict[str, Any]]:
    """The objects of an overlay."""
    return list(module("yaml").safe_load_all(rendered(kubectl, overlay)))


def validate(require: Require, file: Path) -> subprocess.CompletedProcess[str]:
    """What the schemas of the newest Kubernetes that kubernetes-validate knows say; unknown keys are faults."""
    return subprocess.run([program("kubernetes-validate", require), "--strict", file], capture_output=True, text=True, check=False)


@pytest.mark.real
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_renders_to_valid_objects(kubectl: Path, require: Require, overlay: str, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(rendered(kubectl, overlay), encoding="utf-8")
    done = validate(require, tmp_path / "all.yaml")
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert {kind.lower() for kind in OVERLAYS[overlay] - OPERATOR} == set(re.findall(r"passed for resource (\w+)/", said))
    assert OVERLAYS[overlay] & OPERATOR == set(re.findall(r"find schema for kind (\w+) ", said))


@pytest.mark.real
def test_an_unknown_key_would_be_seen(kubectl: Path, require: Require, tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text(rendered(kubectl, "plain").replace("replicas: 1", "replica: 1"), encoding="utf-8")
    done = validate(require, tmp_path / "all.yaml")
    assert done.returncode != 0
    assert "'replica' was unexpected" in done.stdout + done.stderr


@pytest.mark.real
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_all_objects_are_in_one_namespace(kubectl: Path, overlay: str) -> None:
    objects = render(kubectl, overlay)
    assert sorted(found["kind"] for found in objects) == sorted(OVERLAYS[overlay])
    assert {found["metadata"].get("namespace", found["metadata"]["name"]) for found in objects} == {"breakeven"}


@pytest.mark.real
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_keeps_to_the_restricted_standard(kubectl: Path, overlay: str) -> None:
    """Pod Security Standards, profile "restricted"; and one writer of the book."""
    (deployment,) = (found for found in render(kubectl, overlay) if found["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    own = container["securityContext"]
    assert (own["allowPrivilegeEscalation"], own["capabilities"], own["readOnlyRootFilesystem"]) == (False, {"drop": ["ALL"]}, True)
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    image = document(DEPLOY / "compose.yaml")["services"]["tracker"]["image"]
    assert container["image"] == image


@pytest.mark.real
def test_the_postgres_overlay_names_its_database_and_secret(kubectl: Path) -> None:
    objects = {found["kind"]: found for found in render(kubectl, "postgres")}
    assert 'url = "postgresql+psycopg://' in objects["ConfigMap"]["data"]["tracker.toml"]
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "breakeven-postgres", "key": "password"}}}]


@pytest.mark.real
def test_the_operator_gets_the_rules_of_prometheus(kubectl: Path, require: Require, tmp_path: Path) -> None:
    rule = next(found for found in render(kubectl, "monitored") if found["kind"] == "PrometheusRule")
    assert rule["spec"]["groups"] == [group for path in RULES for group in document(path)["groups"]]
    (tmp_path / "rules.yml").write_text(json.dumps(rule["spec"]), encoding="utf-8")  # JSON is YAML
    check = [require("promtool"), "check", "rules", "--lint=all", "--lint-fatal", tmp_path / "rules.yml"]
    assert subprocess.run(check, capture_output=True, check=False).returncode == 0


@pytest.mark.real
def test_the_daemon_is_scraped_under_the_job_the_rules_know(kubectl: Path) -> None:
    objects = {found["kind"]: found for found in render(kubectl, "monitored")}
    monitor, service = objects["ServiceMonitor"]["spec"], objects["Service"]
    job = document(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["job_name"]
    assert service["metadata"]["labels"][monitor["jobLabel"]] == job
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert service["spec"]["selector"] == objects["Deployment"]["spec"]["template"]["metadata"]["labels"]


def test_the_object_with_the_rules_is_up_to_date() -> None:
    made = runpy.run_path(str(MONITORING / "prometheusrule.py"))["manifest"]()
    assert (MONITORING / "prometheusrule.yaml").read_text(encoding="utf-8") == made, "run prometheusrule.py"


def test_the_configuration_is_that_of_compose() -> None:
    for folder, database in (("base", "sqlite"), ("overlays/postgres", "postgres")):
        own, other = (KUBERNETES / folder / "tracker.toml"), DEPLOY / "settings" / database / "tracker.toml"
        assert own.read_text(encoding="utf-8") == other.read_text(encoding="utf-8")
