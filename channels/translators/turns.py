"""Turns put in order: neighbours of one role merged, tool results first in their turn.

Every decoder ends here, so that every encoder may rely on it: the stricter protocols want roles to
alternate, all results of one turn's calls in the next turn, and before anything else in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels.translators.canonical import Part, ToolResult, Turn


def merged(turns: Iterable[Turn]) -> tuple[Turn, ...]:
    """Merge neighbouring turns of one role; turns that say nothing disappear.

    Turns merge across different participants' names as well; the merged turn has the name they
    share, or none.
    """
    kept: list[tuple[Turn, list[Part]]] = []
    for turn in turns:
        if not turn.parts:
            continue
        if kept and kept[-1][0].role == turn.role:
            before, parts = kept[-1]
            parts.extend(turn.parts)
            if before.name != turn.name:
                kept[-1] = (Turn(before.role, ()), parts)
        else:
            kept.append((turn, list(turn.parts)))
    return tuple(Turn(turn.role, _results_first(parts), turn.name) for turn, parts in kept)


def _results_first(parts: list[Part]) -> tuple[Part, ...]:
    results = [part for part in parts if isinstance(part, ToolResult)]
    if not results:
        return tuple(parts)
    return (*results, *(part for part in parts if not isinstance(part, ToolResult)))
