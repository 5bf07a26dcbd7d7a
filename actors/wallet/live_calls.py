"""The live calls of this process, and what each has delivered so far.

The heartbeat reads it, so that after a crash another process can settle what was delivered. A
call enters when its hold is granted and leaves when its settlement is queued.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any
from uuid import UUID

from msgspec import Struct


class Delivered(Struct, frozen=True):
    """The output sent to the client, priced; `basis` is the source of the token counts.

    `detail` is what the row keeps of the price, if that differs from the hold's.
    """

    cost_nano_usd: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    basis: str = "stated"
    detail: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        stored: dict[str, Any] = {
            "cost": self.cost_nano_usd,
            "input": self.input_tokens,
            "output": self.output_tokens,
            "cached": self.cached_tokens,
            "cache_write": self.cache_write_tokens,
            "basis": self.basis,
        }
        if self.detail is not None:
            stored["detail"] = dict(self.detail)
        return stored


class LiveCalls:
    """Maps a call id to a function that returns what the call has delivered (None: nothing yet)."""

    def __init__(self) -> None:
        self._calls: dict[int, Callable[[], Delivered | None]] = {}
        self._reported: dict[int, Delivered] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: UUID) -> bool:
        return call_id.int in self._calls

    def ids(self) -> set[int]:
        """Return the ids of the live calls."""
        return set(self._calls)

    def enter(self, call_id: UUID, delivered: Callable[[], Delivered | None]) -> None:
        """Add a call."""
        self._calls[call_id.int] = delivered

    def leave(self, call_id: UUID) -> None:
        """Remove a call. Removing it again has no effect."""
        self._calls.pop(call_id.int, None)
        if self._reported:  # usually empty: a call ends before it is reported
            self._reported.pop(call_id.int, None)

    def changed(self, *, at_once: int) -> Iterator[list[tuple[UUID, Delivered]]]:
        """Yield calls that have delivered more since they were last yielded here.

        Each list covers `at_once` calls and may be empty: thousands of calls take so long that the
        event loop should run other tasks in between.
        """
        calls = iter(list(self._calls.items()))
        while looked_at := list(islice(calls, at_once)):
            moved = []
            for call, read in looked_at:
                delivered = read() if call in self._calls else None
                if delivered is not None and self._reported.get(call) != delivered:
                    self._reported[call] = delivered
                    moved.append((UUID(int=call), delivered))
            yield moved

    def report_again(self) -> None:
        """Discard what was reported, because the report was not delivered."""
        self._reported.clear()
