"""The most budgets that one call could match, whatever it is. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import nlargest

from actors.wallet.attribution import LABELS_MAX
from gw.budgets.subject import NARROWER

# Each one that a call matches is a row that its hold and its settlement write.
MATCHED_MAX = 16

# Scope, subject and period of a budget.
Place = tuple[str, str | None, str]


def breadth(places: Iterable[Place]) -> int:
    """Return the most of these budgets that one call could match."""
    periods: Mapping[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for scope, subject, period in places:
        periods[scope][subject or ""].add(period)
    count = 0
    for scope in ("account", "agent", "model"):
        count += max(map(len, periods[scope].values()), default=0)
    for every, scope in NARROWER.items():
        general = periods[every].get("", set())
        # Of each period one alone matches: the narrower one where there is one.
        count += max((len(own | general) for own in periods[scope].values()), default=len(general))
    return count + sum(nlargest(LABELS_MAX, _of_labels(periods["label"])))


def _of_labels(periods: Mapping[str, set[str]]) -> Sequence[int]:
    """Return for each key the most budgets that one of its values has."""
    most: dict[str, int] = {}
    for subject, found in periods.items():
        key = subject.partition("=")[0]
        most[key] = max(most.get(key, 0), len(found))
    return list(most.values())
