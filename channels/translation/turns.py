"""Turns put in order: neighbours of one role merged, tool results first in their turn.

Every decoder ends here, so that every encoder may rely on it: the stricter protocols want roles to
alternate, all results of one turn's calls in the next turn, and before anything else in it. They
have no empty messages either: leaving one out would make another conversation of it.
"""

from __future__ import annotations

from collections.abc import Iterable

from channels.errors import InvalidRequest
from channels.translation.model import ClientProtocol, Part, Request, Text, ToolResult, Turn

# What stands for a message that says nothing.
EMPTY = Text("")
_UNSAYABLE = (
    "the channel of this model speaks another protocol, which has no message without content; "
    "give it some or leave it out."
)


def refuse_empty(request: Request) -> None:
    """Raise InvalidRequest for a message that says nothing, where the protocol has no such."""
    for path in request.empty:
        raise InvalidRequest(f"{path}: {_UNSAYABLE}", path)


def unsayable(origin: ClientProtocol) -> InvalidRequest:
    """The client's error for a turn of which nothing can be said, or for no turn at all."""
    path = origin.turns
    return InvalidRequest(
        f"{path}: nothing of a message can be said to the channel of this model: {_UNSAYABLE}", path
    )


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
    return tuple(
        Turn(turn.role, _results_first(_without_empty(parts)), turn.name) for turn, parts in kept
    )


def _without_empty(parts: list[Part]) -> list[Part]:
    """The parts of a turn without empty messages where any other says something."""
    if len(parts) == 1 or EMPTY not in parts:
        return parts
    return [part for part in parts if part != EMPTY] or [EMPTY]


def _results_first(parts: list[Part]) -> tuple[Part, ...]:
    results = [part for part in parts if isinstance(part, ToolResult)]
    if not results:
        return tuple(parts)
    return (*results, *(part for part in parts if not isinstance(part, ToolResult)))
