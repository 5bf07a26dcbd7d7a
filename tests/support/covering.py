"""Fewer rows of a table that still show every combination that matters.

A full product of providers, protocols, forms and contents repeats most of what it tells apart.
`covering` keeps rows until each value of each view has been seen; a view of two columns makes it
pairwise in them.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def covering(rows: Sequence[Row], *views: Callable[[Row], Hashable]) -> list[Row]:
    """Rows, in their order, that have each value which a view has of any of the rows.

    Greedy: the row with most values unseen is next, among equals the first one. The choice
    depends on the rows alone, so each worker of a run makes the same.
    """
    values = [{(number, view(row)) for number, view in enumerate(views)} for row in rows]
    unseen = set().union(*values)
    chosen: set[int] = set()
    while unseen:
        best = max(range(len(rows)), key=lambda place: len(values[place] & unseen))
        unseen -= values[best]
        chosen.add(best)
    return [rows[place] for place in sorted(chosen)]
