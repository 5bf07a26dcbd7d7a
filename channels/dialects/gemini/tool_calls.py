"""Function calls of a gemini response, whole or in pieces, as canonical events.

A call is usually complete in one part. On request some upstreams first send a name, then values
by path (`$.items[0].name`), texts in pieces; a part without a continuation ends the call. The
arguments are assembled, and emitted once they are complete.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from channels.dialects.gemini.events import ChunkCall, PartialArgument
from channels.families import GEMINI
from channels.json import lenient
from channels.translation.events import CallBegan, CallDelta, Event
from channels.translation.identifiers import made_id

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
# The largest gap between an index and the end of its array: pieces come in order.
_GAP_MAX = 64


@dataclass(slots=True)
class _OpenFunctionCall:
    """A call whose arguments are incomplete.

    `unfinished`: the path of an incomplete text; `pieces`: its pieces so far; `write` stores it.
    """

    index: int
    args: dict[str, object] = field(default_factory=dict)
    unfinished: str | None = None
    pieces: list[str] = field(default_factory=list)
    write: Callable[[str], None] | None = None

    def go_on(self, path: str, piece: str) -> bool:
        """Append to the incomplete text, if it has this path."""
        if self.unfinished != path or self.write is None:
            return False
        self.pieces.append(piece)
        return True

    def end_text(self) -> None:
        """Store the text, which is complete."""
        if self.write is not None:
            self.write("".join(self.pieces))
        self.unfinished = self.write = None
        self.pieces.clear()


class GeminiToolCallReader:
    """Emits the events of one response's calls. `seed`: for generated ids."""

    __slots__ = ("_open", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0
        self._open: _OpenFunctionCall | None = None

    def read(self, call: ChunkCall, signature: str | None) -> list[Event]:
        """Return the events of a part with a call or a piece of one."""
        events: list[Event] = []
        if call.name:
            events.extend(self.close())
            index = self.count
            self.count += 1
            events.append(
                CallBegan(
                    index,
                    call.id or made_id(self.seed, str(index)),
                    call.name,
                    signature=signature,
                    signer=GEMINI.protocol if signature else None,
                )
            )
            if not (call.partial_args or call.will_continue):
                events.append(CallDelta(index, _arguments(call.args)))
                return events
            self._open = _OpenFunctionCall(index)
        if self._open is not None:
            self._take(self._open, call)
            if not call.will_continue:
                events.extend(self.close())
        return events

    def close(self) -> list[Event]:
        """Complete the open call, if there is one."""
        if self._open is None:
            return []
        done, self._open = self._open, None
        done.end_text()
        return [CallDelta(done.index, lenient.dumps(done.args).decode())]

    def _take(self, done: _OpenFunctionCall, call: ChunkCall) -> None:
        if call.args is not lenient.NULL:
            value = lenient.read_loosely(bytes(call.args))
            if isinstance(value, dict):
                done.end_text()
                done.args.update(value)
        for piece in call.partial_args or ():
            _put(done, piece)


def _arguments(raw: msgspec.Raw) -> str:
    """Return arguments as compact JSON text; `{}` without any."""
    if raw is lenient.NULL:
        return "{}"
    try:
        text = msgspec.json.format(bytes(raw), indent=-1)
    except lenient.UNREADABLE:
        return "{}"
    if text.startswith(b"{"):
        return text.decode("utf-8", "replace")
    if text.startswith(b'"'):  # some upstreams send the object as a string
        value = lenient.read_loosely(text)
        return value if isinstance(value, str) and value.strip() else "{}"
    return "{}" if text == b"null" else text.decode("utf-8", "replace")


def _put(done: _OpenFunctionCall, piece: PartialArgument) -> None:
    """Store a value at its path; an invalid path is ignored."""
    path = piece.json_path or ""
    if piece.string_value is not None and done.go_on(path, piece.string_value):
        if not piece.will_continue:
            done.end_text()
        return
    done.end_text()
    steps = _steps(path)
    if not steps:
        return
    holder: Any = done.args
    for step, following in pairwise(steps):
        if not _has_member(holder, step):
            return
        if holder[step] is None:
            holder[step] = [] if isinstance(following, int) else {}
        holder = holder[step]
    last: object = steps[-1]
    if not _has_member(holder, last):
        return
    value = _value(piece)
    holder[last] = value
    if piece.will_continue and isinstance(value, str):
        done.unfinished = path
        done.pieces.append(value)
        done.write = functools.partial(operator.setitem, holder, last)


def _value(piece: PartialArgument) -> object:
    value: object = piece.string_value
    for raw in (piece.number_value, piece.bool_value):
        if value is None and raw is not lenient.NULL:
            value = lenient.read_loosely(bytes(raw))
    return value


def _steps(path: str) -> list[object]:
    """Return the names and indices of a path; empty if it is invalid."""
    steps: list[object] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return []
        name, index, quoted, doubly = match.groups()
        steps.append(int(index) if index is not None else name or quoted or doubly or "")
        position = match.end()
    return steps


def _has_member(holder: object, step: object) -> bool:
    """Whether a step exists or can be added; it is added to the container."""
    if isinstance(holder, dict) and isinstance(step, str):
        holder.setdefault(step, None)
        return True
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder) + _GAP_MAX:
        holder.extend([None] * (step + 1 - len(holder)))
        return True
    return False
