"""Writes prometheusrule.yaml from the rules of deploy/prometheus: run it after changing them. Standard library only."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
RULES = HERE.parents[2] / "prometheus" / "rules"
HEAD = """# Made by prometheusrule.py from deploy/prometheus/rules; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: breakeven
  labels:
    app.kubernetes.io/name: breakeven
spec:
  groups:
"""


def manifest() -> str:
    """The rule files in one object: what stands below ``groups:`` of each, two columns further to the right."""
    groups = [path.read_text(encoding="utf-8").partition("\ngroups:\n")[2] for path in sorted(RULES.glob("*.yml"))]
    lines = "".join(groups).splitlines()
    return HEAD + "\n".join(f"  {line}" if line else "" for line in lines) + "\n"


if __name__ == "__main__":
    (HERE / "prometheusrule.yaml").write_text(manifest(), encoding="utf-8")
