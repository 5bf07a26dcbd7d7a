"""Normalised turns: adjacent ones of the same role merged, tool results first in their turn."""

from __future__ import annotations

from collections.abc import Iterable

from channels.errors import InvalidRequest
from channels.translation import model

# The user's last words after a conversation that ends with the model's turn, where the model has to
# have them.
CONTINUING = "Continue."
# Represents an empty message.
EMPTY = model.Text("")
_UNSAYABLE = (
    "the channel of this model speaks another protocol, which has no message without content; "
    "give it some or leave it out."
)


def refuse_empty(request: model.Request) -> None:
    """Raise InvalidRequest for an empty message, if the protocol forbids these."""
    for path in request.empty:
        raise InvalidRequest(f"{path}: {_UNSAYABLE}", path)


def unsayable(origin: model.ClientProtocol) -> InvalidRequest:
    """Return the client's error for a turn that cannot be expressed, or for no turn at all."""
    path = origin.turns
    return InvalidRequest(
        f"{path}: nothing of a message can be said to the channel of this model: {_UNSAYABLE}", path
    )


def without_refusals(
    parts: Iterable[model.Text | model.Media | model.Refusal],
) -> tuple[model.Text | model.Media, ...]:
    """Return the parts of a user or a tool, in which a refusal is text."""
    return tuple(
        model.Text(part.text) if isinstance(part, model.Refusal) else part for part in parts
    )


def merged(turns: Iterable[model.Turn]) -> tuple[model.Turn, ...]:
    """Merge adjacent turns of the same role, and drop empty turns.

    Turns with different participants' names are merged, too; the merged turn has their common name,
    or none.
    """
    kept: list[tuple[model.Turn, list[model.Part]]] = []
    for turn in turns:
        if not turn.parts:
            continue
        if kept and kept[-1][0].role == turn.role:
            before, parts = kept[-1]
            parts.extend(turn.parts)
            if before.name != turn.name:
                kept[-1] = (model.Turn(before.role, ()), parts)
        else:
            kept.append((turn, list(turn.parts)))
    return tuple(
        model.Turn(turn.role, _results_first(_without_empty(parts)), turn.name)
        for turn, parts in kept
    )


def _without_empty(parts: list[model.Part]) -> list[model.Part]:
    """Drop the empty messages of a turn if it has other parts."""
    if len(parts) == 1 or EMPTY not in parts:
        return parts
    return [part for part in parts if part != EMPTY] or [EMPTY]


def _results_first(parts: list[model.Part]) -> tuple[model.Part, ...]:
    results = [part for part in parts if isinstance(part, model.ToolResult)]
    if not results:
        return tuple(parts)
    return (*results, *(part for part in parts if not isinstance(part, model.ToolResult)))
