"""Tool calls of a chat-completions stream: assigns pieces to their call.

The protocol numbers the calls of a choice; id and name are sent once, arguments in pieces.
Upstreams differ: no number, the same number for every call, id and name in every piece, a name
after the first arguments, no id at all. Some send an empty call with every response, which is
ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from channels.dialects.chat.events import ChunkToolCall
from channels.dialects.chat.thinking import read_call_signature
from channels.json.lenient import NULL, read_loosely
from channels.translation.call_arguments import WaitingArguments, call_arguments, is_no_arguments
from channels.translation.events import CallBegan, CallDelta, Event
from channels.translation.identifiers import made_id
from channels.translation.model import Protocol


@dataclass(slots=True)
class _StreamedCall:
    """One call, as far as received.

    `index` is the canonical one, once the call has begun. Arguments are kept that precede the name,
    or that may turn out to mean no arguments.
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
        """Whether its CallBegan was emitted."""
        return self.index >= 0


def is_placeholder(name: str, arguments: str) -> bool:
    """Whether a call is the empty one that some upstreams send with every response."""
    return not name and (arguments.strip() == "{}" or is_no_arguments(arguments))


class ChatToolCallReader:
    """Decodes the calls of one response to events. `seed` derives missing ids."""

    __slots__ = ("_by_id", "_by_number", "_calls", "_is_closed", "_number_max", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0  # calls that have begun
        self._by_number: dict[int, _StreamedCall] = {}
        self._number_max = -1
        self._by_id: dict[str, _StreamedCall] = {}  # the first call of each id
        self._calls: list[_StreamedCall] = []
        self._is_closed = False

    def read(self, pieces: Iterable[ChunkToolCall]) -> list[Event]:
        """Return the events of the calls, or pieces of them, in a chunk."""
        events: list[Event] = []
        for piece in pieces:
            self._take(piece, events)
        return events

    def close(self) -> list[Event]:
        """Return the final events: a call without arguments gets an empty object."""
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

    def _take(self, piece: ChunkToolCall, events: list[Event]) -> None:
        function = piece.function
        name = function.name if function is not None else None
        call = self._call_of(piece, name)
        if name and not call.name:
            call.name = name
        if piece.extra_content is not NULL and not call.has_begun:
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

    def _call_of(self, piece: ChunkToolCall, name: str | None) -> _StreamedCall:
        """Return the call of a piece, which may be a new one."""
        number = piece.index
        if number is None:
            if (known := self._unnumbered_call(piece, name)) is not None:
                return known
            number = self._number_max + 1
        call = self._by_number.get(number)
        # A second call under the same number is recognised by its id and name.
        is_other = call is not None and piece.id and call.id and piece.id != call.id and name
        if call is None or is_other:
            call = _StreamedCall(piece.id or None)
            self._by_number[number] = call
            self._number_max = max(self._number_max, number)
            self._calls.append(call)
        elif call.id is None and piece.id:
            call.id = piece.id
        if call.id:
            self._by_id.setdefault(call.id, call)
        return call

    def _unnumbered_call(self, piece: ChunkToolCall, name: str | None) -> _StreamedCall | None:
        """Return the call that a piece without a number continues: by its id, else the latest."""
        if piece.id:
            return self._by_id.get(piece.id)
        return self._calls[-1] if self._calls and not name else None

    def _begin(self, call: _StreamedCall, events: list[Event]) -> None:
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


def _emit_arguments(call: _StreamedCall, events: list[Event]) -> None:
    """Emit the kept arguments, unless they may still turn out to mean none."""
    if call.has_begun and (arguments := call.waiting.take()) is not None:
        call.has_arguments = True
        events.append(CallDelta(call.index, arguments))
