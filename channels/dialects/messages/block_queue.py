"""The content blocks of a messages response: in a stream one open at a time, or whole.

A stream sends one block after the other; elsewhere tool calls may be interleaved. The first
block is open on the wire, the following ones wait until it is complete: a text as soon as another
block follows, a call when its arguments are a JSON object.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from channels.json.lenient import dumps
from channels.json.written import Written
from channels.translation.call_arguments import Arguments, arguments_object

_DELTAS = {
    "text": b'{"type":"text_delta","text":',
    "thinking": b'{"type":"thinking_delta","thinking":',
    "signature": b'{"type":"signature_delta","signature":',
    "input": b'{"type":"input_json_delta","partial_json":',
}
_DELTA = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":'


@dataclass(slots=True, eq=False)
class PendingBlock:
    """One block: its `content_block` at the start, and what was not yet written into its members.

    `arguments` are a call's; None for other blocks.
    """

    kind: str
    start: Written
    waiting: list[tuple[str, str]] = field(default_factory=list)
    arguments: Arguments | None = None
    is_finished: bool = False

    def is_whole(self) -> bool:
        """Whether the block is complete."""
        return self.arguments is None or self.arguments.is_whole()


class BlockList:
    """The blocks of one whole response."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[PendingBlock] = []

    def last(self) -> PendingBlock | None:
        """The last block begun."""
        return self._blocks[-1] if self._blocks else None

    def add(self, block: PendingBlock) -> bytes:
        """Append a block."""
        self._blocks.append(block)
        return b""

    def write(self, block: PendingBlock, member: str, text: str) -> bytes:
        """Add to a member of a block."""
        block.waiting.append((member, text))
        return b""

    def close(self) -> bytes:
        """Finish every block."""
        return b""

    def content(self) -> list[Written]:
        """Return the blocks with all their members."""
        for block in self._blocks:
            if block.arguments is not None:
                block.start["input"] = arguments_object(block.arguments.text())
                continue
            texts: dict[str, list[str]] = {}
            for member, text in block.waiting:
                texts.setdefault(member, []).append(text)
            block.start.update((member, "".join(pieces)) for member, pieces in texts.items())
        return [block.start for block in self._blocks]


class BlockQueue:
    """Encodes the blocks of one response's stream, numbered from 0."""

    __slots__ = ("_head", "_index", "_queue")

    def __init__(self) -> None:
        self._queue: deque[PendingBlock] = deque()
        self._index = -1
        self._head = b""  # prefix of a delta of the open block

    def last(self) -> PendingBlock | None:
        """The last block begun, unless it is finished."""
        return self._queue[-1] if self._queue else None

    def add(self, block: PendingBlock) -> bytes:
        """Append a block; its start is returned if it can be written at once."""
        self._queue.append(block)
        if len(self._queue) == 1:
            return self._begin()
        return self._advance()

    def write(self, block: PendingBlock, member: str, text: str) -> bytes:
        """Write a delta of a member into a block; it may have to wait."""
        if self._queue and block is self._queue[0]:
            written = self._delta(member, text)
            if len(self._queue) > 1:
                return written + self._advance()
            return written
        if not block.is_finished:
            block.waiting.append((member, text))
            return self._advance()
        return b""  # it is finished: the arguments were complete

    def close(self) -> bytes:
        """Finish every block; a call without arguments gets an empty object."""
        pieces = []
        while self._queue:
            block = self._queue[0]
            if block.arguments is not None and not block.arguments.text().strip():
                pieces.append(self._delta("input", "{}"))
            pieces.append(self._finish())
        return b"".join(pieces)

    def _advance(self) -> bytes:
        """Finish the open block while it is complete and another one waits."""
        pieces = []
        while len(self._queue) > 1 and self._queue[0].is_whole():
            pieces.append(self._finish())
        return b"".join(pieces)

    def _delta(self, member: str, text: str) -> bytes:
        return self._head + _DELTAS[member] + dumps(text) + b"}}\n\n"

    def _finish(self) -> bytes:
        stop = b'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
        written = stop % self._index
        self._queue.popleft().is_finished = True
        return written + self._begin() if self._queue else written

    def _begin(self) -> bytes:
        """Write the start of the first block, and its waiting deltas."""
        block = self._queue[0]
        self._index += 1
        self._head = _DELTA % self._index
        start = {"type": "content_block_start", "index": self._index, "content_block": block.start}
        pieces = [b"event: content_block_start\ndata: " + dumps(start) + b"\n\n"]
        pieces += [self._delta(member, text) for member, text in block.waiting]
        block.waiting.clear()
        return b"".join(pieces)
