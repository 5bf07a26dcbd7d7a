"""Function calls of a gemini response, whole or in pieces, as canonical events.

A call comes whole in one part as a rule. Asked to, some upstreams send a name first and then values
by their paths (`$.items[0].name`), a text's in pieces; a part that promises no more ends the call.
The arguments are put together here and given once they are whole.
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

from channels.dialects.gemini.chunk import Call, PartialArgument
from channels.families import GEMINI
from channels.json.lenient import NOTHING, read_loosely
from channels.json.text import UNREADABLE, dumps
from channels.translation.identifiers import made_id
from channels.translation.model import CallBegan, CallDelta, Event

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
# An index says how long its array is; pieces come one by one, so none can be far ahead.
_GAP_MAX = 64


@dataclass(slots=True)
class _Open:
    """A call whose arguments are still coming.

    `unfinished` is the path of a text that goes on, `pieces` what there is of it, and `write` puts
    it where it belongs.
    """

    index: int
    args: dict[str, Any] = field(default_factory=dict)
    unfinished: str | None = None
    pieces: list[str] = field(default_factory=list)
    write: Callable[[str], None] | None = None

    def go_on(self, path: str, piece: str) -> bool:
        """Add to the text under way, where it is the one of this path."""
        if self.unfinished != path or self.write is None:
            return False
        self.pieces.append(piece)
        return True

    def end_text(self) -> None:
        """Write the text under way, of which nothing more comes."""
        if self.write is not None:
            self.write("".join(self.pieces))
        self.unfinished = self.write = None
        self.pieces.clear()


class ToolCallReader:
    """Gives the events of the calls of one response. `seed` makes the ids that are missing."""

    __slots__ = ("_open", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0
        self._open: _Open | None = None

    def __repr__(self) -> str:
        return f"<ToolCallReader {self.count} calls{', one open' if self._open else ''}>"

    def read(self, call: Call, signature: str | None) -> list[Event]:
        """The events in a part that holds a call or a piece of one."""
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
            self._open = _Open(index)
        if self._open is not None:
            self._take(self._open, call)
            if not call.will_continue:
                events.extend(self.close())
        return events

    def close(self) -> list[Event]:
        """No more pieces follow for the call that is open, if one is."""
        if self._open is None:
            return []
        done, self._open = self._open, None
        done.end_text()
        return [CallDelta(done.index, dumps(done.args).decode())]

    def _take(self, done: _Open, call: Call) -> None:
        if call.args is not NOTHING:
            value = read_loosely(bytes(call.args))
            if isinstance(value, dict):
                done.end_text()
                done.args.update(value)
        for piece in call.partial_args or ():
            _put(done, piece)


def _arguments(raw: msgspec.Raw) -> str:
    """Arguments as compact JSON text; an object, however empty."""
    if raw is NOTHING:
        return "{}"
    try:
        text = msgspec.json.format(bytes(raw), indent=-1)
    except UNREADABLE:
        return "{}"
    if text.startswith(b"{"):
        return text.decode("utf-8", "replace")
    if text.startswith(b'"'):  # some upstreams send the object as a string
        value = read_loosely(text)
        return value if isinstance(value, str) and value.strip() else "{}"
    return "{}" if text == b"null" else text.decode("utf-8", "replace")


def _put(done: _Open, piece: PartialArgument) -> None:
    """Put a value where its path says; a path that cannot be followed is passed over."""
    path = piece.json_path or ""
    if piece.string_value is not None and done.go_on(path, piece.string_value):
        if not piece.will_continue:
            done.end_text()
        return
    done.end_text()
    steps = _steps(path)
    if not steps:
        return
    value: Any = piece.string_value
    for raw in (piece.number_value, piece.bool_value):
        if value is None and raw is not NOTHING:
            value = read_loosely(bytes(raw))
    holder: Any = done.args
    for step, following in pairwise(steps):
        if not _has_member(holder, step):
            return
        if holder[step] is None:
            holder[step] = [] if isinstance(following, int) else {}
        holder = holder[step]
    last: Any = steps[-1]
    if not _has_member(holder, last):
        return
    holder[last] = value
    if piece.will_continue and isinstance(value, str):
        done.unfinished = path
        done.pieces.append(value)
        done.write = functools.partial(operator.setitem, holder, last)


def _steps(path: str) -> list[Any]:
    """The names and indices of a path; none where it cannot be read."""
    steps: list[Any] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return []
        name, index, quoted, doubly = match.groups()
        steps.append(int(index) if index is not None else name or quoted or doubly or "")
        position = match.end()
    return steps


def _has_member(holder: Any, step: Any) -> bool:
    """Whether a step leads somewhere; a container is made for what is to stand there."""
    if isinstance(holder, dict) and isinstance(step, str):
        holder.setdefault(step, None)
        return True
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder) + _GAP_MAX:
        holder.extend([None] * (step + 1 - len(holder)))
        return True
    return False
