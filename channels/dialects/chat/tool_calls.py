"""Tool calls of a chat-completions stream: pieces put to the call they belong to.

The protocol numbers the calls of a choice; id and name come once, arguments in pieces. Upstreams
differ: no number, the same number for every call, id and name in every piece, a name after the
first arguments, no id at all. Some send an empty call with every response, which is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from channels.dialects.chat.chunk import ToolCall
from channels.dialects.chat.thinking import read_call_signature
from channels.json.lenient import NOTHING, read_loosely
from channels.json.text import call_arguments, is_no_arguments
from channels.translation.identifiers import made_id
from channels.translation.model import CallBegan, CallDelta, Event, Protocol
from channels.translation.tool_arguments import WaitingArguments


@dataclass(slots=True)
class _Call:
    """One call, and what is known of it.

    `index` is the canonical one, from when the call has begun. Arguments wait that came before the
    name, or that may say that there are none.
    """

    id: str | None
    index: int = -1
    name: str = ""
    waiting: WaitingArguments = field(default_factory=WaitingArguments)
    has_arguments: bool = False
    signature: str | None = None
    signer: Protocol | None = None

    @property
    def has_begun(self) -> bool:
        """Whether it has been told that there is this call."""
        return self.index >= 0


def is_placeholder(name: str, arguments: str) -> bool:
    """Whether a call calls nothing: it stands where a call would, as some upstreams have it."""
    return not name and (arguments.strip() == "{}" or is_no_arguments(arguments))


class ToolCallReader:
    """Gives the events of the calls of one response. `seed` makes the ids that are missing."""

    __slots__ = ("_by_id", "_by_number", "_calls", "_is_closed", "_number_max", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0  # of the calls that have begun
        self._by_number: dict[int, _Call] = {}
        self._number_max = -1
        self._by_id: dict[str, _Call] = {}  # the first of each
        self._calls: list[_Call] = []
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<ToolCallReader {self.count} calls>"

    def read(self, pieces: Iterable[ToolCall]) -> list[Event]:
        """The events in the calls, or pieces of them, that a chunk holds."""
        events: list[Event] = []
        for piece in pieces:
            self._take(piece, events)
        return events

    def close(self) -> list[Event]:
        """No more pieces follow: a call without arguments has an empty object of them."""
        events: list[Event] = []
        if not self._is_closed:
            self._is_closed = True
            for call in self._calls:
                if call.has_arguments or is_placeholder(call.name, call.waiting.text()):
                    continue
                self._begin(call, events)
                if not call.has_arguments:
                    events.append(CallDelta(call.index, call_arguments(call.waiting.text())))
        return events

    def _take(self, piece: ToolCall, events: list[Event]) -> None:
        function = piece.function
        name = function.name if function is not None else None
        call = self._call_of(piece, name)
        if name and not call.name:
            call.name = name
        if piece.extra_content is not NOTHING and not call.has_begun:
            extra = {"extra_content": read_loosely(bytes(piece.extra_content))}
            call.signature, call.signer = read_call_signature(extra)
        if call.name:
            self._begin(call, events)
        arguments = function.arguments if function is not None else None
        if call.has_arguments:
            if arguments:
                events.append(CallDelta(call.index, arguments))
            return
        if arguments:
            call.waiting.add(arguments)
            _emit_arguments(call, events)

    def _call_of(self, piece: ToolCall, name: str | None) -> _Call:
        """The call that a piece belongs to, which may be a new one."""
        number = piece.index
        if number is None:
            known = self._by_id.get(piece.id) if piece.id else None
            if known is not None:
                return known
            if self._calls and not piece.id and not name:
                return self._calls[-1]
            number = self._number_max + 1
        call = self._by_number.get(number)
        # A second call under a number that is taken gives itself away by id and name.
        is_other = call is not None and piece.id and call.id and piece.id != call.id and name
        if call is None or is_other:
            call = _Call(piece.id or None)
            self._by_number[number] = call
            self._number_max = max(self._number_max, number)
            self._calls.append(call)
        elif call.id is None and piece.id:
            call.id = piece.id
        if call.id:
            self._by_id.setdefault(call.id, call)
        return call

    def _begin(self, call: _Call, events: list[Event]) -> None:
        if call.has_begun:
            return
        call.index = self.count
        self.count += 1
        events.append(
            CallBegan(
                call.index,
                call.id or made_id(self.seed, str(call.index)),
                call.name,
                signature=call.signature,
                signer=call.signer,
            )
        )
        _emit_arguments(call, events)


def _emit_arguments(call: _Call, events: list[Event]) -> None:
    """Let go of the arguments that wait, unless they still may say that there are none."""
    if call.has_begun and (arguments := call.waiting.take()) is not None:
        call.has_arguments = True
        events.append(CallDelta(call.index, arguments))
