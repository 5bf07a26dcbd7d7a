"""The calls that live in this process, and what each has delivered so far.

The heartbeat reads it, so that after a crash another process can settle what was known to be
delivered. A call enters when its hold is granted and leaves when its settlement is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Delivered:
    """What has gone out to the client, priced; `basis` says what the tokens rest on."""

    cost_nano_usd: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    basis: str = "stated"


class LiveCalls:
    """Call id to a function that says what the call has delivered (None: nothing yet)."""

    def __init__(self) -> None:
        self._calls: dict[UUID, Callable[[], Delivered | None]] = {}
        self._reported: dict[UUID, Delivered] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __contains__(self, call_id: object) -> bool:
        return call_id in self._calls

    def ids(self) -> set[UUID]:
        """The calls that live now."""
        return set(self._calls)

    def enter(self, call_id: UUID, delivered: Callable[[], Delivered | None]) -> None:
        """A call begins to live."""
        self._calls[call_id] = delivered

    def leave(self, call_id: UUID) -> None:
        """A call ends. Leaving twice is harmless."""
        self._calls.pop(call_id, None)
        if self._reported:  # mostly there is none: a call is over before it could be reported
            self._reported.pop(call_id, None)

    def changed(self, *, at_once: int) -> Iterator[list[tuple[UUID, Delivered]]]:
        """Calls that have delivered more since they were last listed here.

        So many calls are looked at for each list, which may be empty: thousands of them take so
        long that others should have their turn in between.
        """
        calls = iter(list(self._calls.items()))
        while looked_at := list(islice(calls, at_once)):
            moved = []
            for call_id, read in looked_at:
                delivered = read() if call_id in self._calls else None
                if delivered is not None and self._reported.get(call_id) != delivered:
                    self._reported[call_id] = delivered
                    moved.append((call_id, delivered))
            yield moved

    def report_again(self) -> None:
        """Forget what was reported: the report did not arrive."""
        self._reported.clear()
