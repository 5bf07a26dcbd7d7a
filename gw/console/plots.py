"""Plots as SVG, rendered by the server: spending by day and by model.

The style sheet defines colours and type, by class; every bar has its figure as a title, and the
page has the same figures as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from xml.sax.saxutils import escape, quoteattr

from gw.api.logs.summary import CallSums
from gw.console.rendering import usd_text

WIDTH, HEIGHT = 720, 160
BASE = 136  # above the dates
GAP = 2
MODELS_MAX = 8
ROW = 28


def days_plot(days: Sequence[CallSums], first: date, last: date, label: str) -> str:
    """Return a bar for each day from `first` to `last`, with days without calls."""
    costs = {one.name: one.cost_nano_usd for one in days}
    count = (last - first).days + 1
    names = [(first + timedelta(days=step)).isoformat() for step in range(count)]
    most = max([costs.get(name, 0) for name in names] + [1])
    width = WIDTH / count
    bars = []
    for index, name in enumerate(names):
        cost = costs.get(name, 0)
        height = max(cost / most * (BASE - 8), 1.5 if cost > 0 else 0)
        bars.append(
            f'<rect x="{index * width + GAP / 2:.1f}" y="{BASE - height:.1f}"'
            f' width="{width - GAP:.1f}" height="{height:.1f}" rx="2" class="bar">'
            f"<title>{name}: {usd_text(cost)} USD</title></rect>"
        )
    marks = "".join(
        f'<text x="{x}" y="{HEIGHT - 6}" text-anchor="{anchor}" class="mark">{name}</text>'
        for x, anchor, name in ((0, "start", names[0]), (WIDTH, "end", names[-1]))
    )
    line = f'<line x1="0" y1="{BASE}" x2="{WIDTH}" y2="{BASE}" class="axis"/>'
    return _svg(HEIGHT, label, line + "".join(bars) + marks)


def models_plot(models: Sequence[CallSums], label: str) -> str:
    """Return a bar for each of the models of the highest cost."""
    shown = sorted(models, key=lambda one: (-one.cost_nano_usd, one.name))[:MODELS_MAX]
    most = max([one.cost_nano_usd for one in shown] + [1])
    rows = []
    for index, one in enumerate(shown):
        y = index * ROW
        width = max(one.cost_nano_usd / most * (WIDTH - 420), 1)
        name = one.name if len(one.name) <= 28 else one.name[:27] + "…"
        rows.append(
            f'<text x="0" y="{y + 19}" class="name">{escape(name)}'
            f"<title>{escape(one.name)}</title></text>"
            f'<rect x="230" y="{y + 6}" width="{width:.1f}" height="18" rx="2" class="bar"/>'
            f'<text x="{238 + width:.1f}" y="{y + 19}" class="mark">'
            f"{usd_text(one.cost_nano_usd)} USD</text>"
        )
    return _svg(max(len(shown), 1) * ROW, label, "".join(rows))


def _svg(height: int, label: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label={quoteattr(label)}'
        f' class="plot">{body}</svg>'
    )
