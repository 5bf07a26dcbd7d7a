"""Dashboards and rules as they are shipped: every panel, every query, every alert."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

OPS = Path(__file__).resolve().parents[2] / "ops"
PROMETHEUS = OPS / "prometheus"
RULE_FILES = tuple(PROMETHEUS / f"{name}.yml" for name in ("recording", "objectives", "alerts"))
DASHBOARDS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((OPS / "grafana" / "dashboards").glob("*.json"))
}

# A metric, or a recorded name, wherever it stands in an expression.
NAME = re.compile(
    r"(?<![\w:])(?:[a-z_]+:[a-z0-9_]+(?::[a-z0-9_]+)?|(?:gw|process)_[a-z_]+|up|ALERTS(?:_FOR_STATE)?)"
    r"(?![\w:])"
)
STRING = re.compile(r"\"[^\"]*\"")


@dataclass(frozen=True)
class Query:
    """One expression, and where it stands."""

    owner: str
    expression: str

    def names(self) -> set[str]:
        """The metrics that it reads."""
        return set(NAME.findall(STRING.sub('""', self.expression)))

    def selectors(self) -> list[str]:
        """Each of them as it is selected: name and matchers, without a window."""
        found = re.finditer(rf"{NAME.pattern}(?:\{{[^}}]*\}})?", self.expression)
        texts = [match[0] for match in found if not _is_inside_text(self.expression, match.start())]
        return sorted(set(texts))


def _is_inside_text(expression: str, at: int) -> bool:
    return expression.count('"', 0, at) % 2 == 1


def _rules() -> list[dict[str, Any]]:
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in RULE_FILES]
    return [rule for file in files for group in file["groups"] for rule in group["rules"]]


RULES = _rules()
ALERTS = [rule for rule in RULES if "alert" in rule]
RECORDED = [rule for rule in RULES if "record" in rule]
PANELS = [(name, panel) for name, board in DASHBOARDS.items() for panel in board["panels"]]


# What shows the present moment by a number, mostly in a color.
TILES = [(name, panel) for name, panel in PANELS if panel["type"] == "stat"]


def as_run(expression: str) -> str:
    """An expression of a panel as Grafana sends it, with everything chosen."""
    values = {"$__rate_interval": "1m", "$__range": "5m"}
    for name, value in values.items():
        expression = expression.replace(name, value)
    return re.sub(r"\$[a-z]+", ".*", expression)


def panel_queries() -> Iterator[Query]:
    """Every expression of every panel."""
    for name, panel in PANELS:
        for target in panel.get("targets", []):
            yield Query(f"{name}: {panel['title']}", target["expr"])


def annotation_queries() -> Iterator[Query]:
    """Every expression of every annotation, once."""
    texts = {
        one["name"]: one["expr"]
        for board in DASHBOARDS.values()
        for one in board["annotations"]["list"]
    }
    for name, expression in texts.items():
        yield Query(f"annotation {name}", expression)


def recorded_queries() -> Iterator[Query]:
    """Every recording rule's expression."""
    for rule in RECORDED:
        labels = "".join(rule.get("labels", {}).values())
        yield Query(f"{rule['record']} {labels}".strip(), rule["expr"])


def alert_queries() -> Iterator[Query]:
    """Every alert's expression."""
    for rule in ALERTS:
        yield Query(rule["alert"], rule["expr"])


def runbook_queries() -> Iterator[Query]:
    """Every expression of every runbook."""
    for path in sorted((OPS / "runbooks").glob("*.md")):
        text = " ".join(path.read_text(encoding="utf-8").split())
        for expression in re.findall(r"`([^`]*\b(?:rate|increase)\([^`]*)`", text):
            yield Query(f"runbook {path.stem}", expression)


def label_values() -> set[tuple[str, str]]:
    """What the dashboards' variables are filled with: metric and label."""
    return {
        (match[1], match[2])
        for board in DASHBOARDS.values()
        for variable in board["templating"]["list"]
        if (match := re.fullmatch(r"label_values\((\w+), (\w+)\)", variable.get("definition", "")))
    }
