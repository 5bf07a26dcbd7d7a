"""Draws a dashboard from a Prometheus, near enough to Grafana for a person to judge its panels.

Stats, time series and tables, in their places, with units, thresholds, mappings and `noValue`. What
a panel shows of one moment is the last value of its window.
"""

import html
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Labels = Mapping[str, str]
Series = list[tuple[Labels, list[tuple[float, float]]]]  # with points of Unix time and value
Query = Callable[[str], Series]

COLUMN_PIXELS, ROW_PIXELS = 60, 38
COLORS = ("#7eb26d", "#eab839", "#6ed0e0", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0",
          "#508642", "#cca300", "#447ebc", "#c15c17")  # fmt: skip
NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "text": "#d8d9da"}
STYLE = """
body { margin: 0; background: #111217; color: #d8d9da; font: 12px sans-serif; position: relative }
section { position: absolute; box-sizing: border-box; border: 4px solid #111217; overflow: hidden;
  background: #181b1f; padding: 6px }
h1 { font-size: 13px; margin: 0 0 4px } .row { background: none; font-size: 15px }
.stat { font-size: 26px; text-align: center; padding-top: 10px }
.none { color: #888; padding: 20px }
.legend span { margin-right: 10px; white-space: nowrap } table { width: 100%; text-align: left }
"""
SECONDS = ((86400 * 365, "years"), (86400, "days"), (3600, "hours"), (60, "min"), (1, "s"))


def shown(value: float, unit: str) -> str:
    """A number as a person reads it."""
    if math.isnan(value):
        return "NaN"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "currencyUSD":
        return f"${value:,.4g}"
    if unit == "s":
        for size, name in SECONDS:
            if abs(value) >= size:
                return f"{value / size:.3g} {name}"
        return f"{value * 1000:.3g} ms"
    if unit in ("bytes", "Bps"):
        power = min(3, int(math.log(max(1, abs(value)), 1024)))
        return f"{value / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB')[power]}"
    if unit == "dateTimeFromNow":
        return "since a moment"
    return f"{value:,.4g}" + (" /s" if unit in ("reqps", "ops", "cps") else "")


@dataclass(frozen=True)
class Board:
    """One dashboard's JSON, drawn with what queries over the window find."""

    board: Mapping[str, Any]
    query: Query

    def page(self) -> str:
        """The page, whose size is that of the board."""
        panels = self.board["panels"]
        height = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in panels) * ROW_PIXELS
        body = "".join(self._panel(one) for one in panels)
        title = html.escape(self.board["title"])
        size = f"width:{24 * COLUMN_PIXELS}px;height:{height}px"
        return (
            f"<!doctype html><meta charset=utf-8><title>{title}</title><style>{STYLE}</style>"
            f"<body style='{size}'>{body}</body>"
        )

    def _panel(self, panel: Mapping[str, Any]) -> str:
        at = panel["gridPos"]
        place = (
            f"left:{at['x'] * COLUMN_PIXELS}px;top:{at['y'] * ROW_PIXELS}px;"
            f"width:{at['w'] * COLUMN_PIXELS}px;height:{at['h'] * ROW_PIXELS}px"
        )
        if panel["type"] == "row":
            return f"<section class=row style='{place}'>{html.escape(panel['title'])}</section>"
        found: Series = []
        for target in panel["targets"]:
            for labels, points in self.query(target["expr"]):
                named = {**labels, "": legend(target["legendFormat"], labels)}
                found.append((named, points))
        draw = {"stat": _stat, "table": _table}.get(panel["type"], _lines)
        title = html.escape(panel["title"])
        return f"<section style='{place}'><h1>{title}</h1>{draw(panel, found)}</section>"


def legend(form: str, labels: Labels) -> str:
    """The name of a line."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), form)


def _none(panel: Mapping[str, Any]) -> str:
    text = panel["fieldConfig"]["defaults"].get("noValue", "No data")
    return f"<div class=none>{html.escape(text)}</div>"


def _stat(panel: Mapping[str, Any], found: Series) -> str:
    values = [points[-1][1] for _, points in found]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return f"<div class=stat>{_none(panel)}</div>"
    drawn = [tile(panel, value) for value in known]
    return "".join(
        f"<div class=stat style='color:{NAMED.get(color, color)}'>{html.escape(text)}</div>"
        for text, color in drawn
    )


def tile(panel: Mapping[str, Any], value: float) -> tuple[str, str]:
    """The text and the name of the color in which a stat shows a number."""
    defaults = panel["fieldConfig"]["defaults"]
    color = "green"
    for step in defaults.get("thresholds", {}).get("steps", []):
        if step["value"] is None or value >= step["value"]:
            color = step["color"]
    text = shown(value, defaults["unit"])
    for mapping in defaults.get("mappings", []):
        meant = mapping["options"].get(f"{value:g}")
        if meant:
            text, color = meant["text"], meant.get("color", color)
    return text, color


def _table(panel: Mapping[str, Any], found: Series) -> str:
    if not found:
        return _none(panel)
    names = sorted({name for labels, _ in found for name in labels} - {"", "__name__", "job"})
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{html.escape(labels.get(name, ''))}</td>" for name in names)
        + f"<td>{points[-1][1]:g}</td></tr>"
        for labels, points in found
    )
    heads = "".join(f"<th>{name}</th>" for name in [*names, "value"])
    return f"<table><tr>{heads}</tr>{rows}</table>"


def _lines(panel: Mapping[str, Any], found: Series) -> str:
    found = [
        (labels, [point for point in points if not math.isnan(point[1])])
        for labels, points in found
    ]
    found = [one for one in found if one[1]]
    if not found:
        return _none(panel)
    defaults, at = panel["fieldConfig"]["defaults"], panel["gridPos"]
    width, height = at["w"] * COLUMN_PIXELS - 90, at["h"] * ROW_PIXELS - 95
    points = [point for _, line in found for point in line]
    begin, end = min(x for x, _ in points), max(x for x, _ in points)
    lowest = min(0.0, *(y for _, y in points))
    highest = max(defaults.get("max", 0), *(y for _, y in points)) or 1.0

    def place(x: float, y: float) -> str:
        across = (x - begin) / ((end - begin) or 1) * width + 70
        return f"{across:.1f},{height - (y - lowest) / (highest - lowest) * height + 8:.1f}"

    drawn = "".join(
        f"<polyline fill=none stroke='{COLORS[index % len(COLORS)]}' stroke-width=1.5 "
        f"points='{' '.join(place(x, y) for x, y in line)}'/>"
        for index, (_, line) in enumerate(found)
    )
    axis = "".join(
        f"<text x=2 y={height - share * height + 12:.0f} fill='#999' font-size=11>"
        f"{html.escape(shown(lowest + share * (highest - lowest), defaults['unit']))}</text>"
        for share in (0, 0.5, 1)
    )
    names = "".join(
        f"<span style='color:{COLORS[index % len(COLORS)]}'>{html.escape(labels[''])}</span>"
        for index, (labels, _) in enumerate(found)
    )
    return (
        f"<svg width={at['w'] * COLUMN_PIXELS - 20} height={height + 16}>{axis}{drawn}</svg>"
        f"<div class=legend>{names}</div>"
    )
