"""The calls of a request without a result, for results that do not name theirs by id.

Every operation takes constant time, however many calls are open.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _PendingCall:
    id: str
    is_open: bool = True


class OpenCalls:
    """Calls in their order. Ids and names may repeat."""

    __slots__ = ("_by_id", "_by_name", "_by_name_and_id", "_in_order")

    def __init__(self) -> None:
        self._in_order: deque[_PendingCall] = deque()
        self._by_name: dict[str, deque[_PendingCall]] = {}
        self._by_id: dict[str, list[_PendingCall]] = {}
        self._by_name_and_id: dict[tuple[str, str], deque[_PendingCall]] = {}

    def __repr__(self) -> str:
        return f"<OpenCalls {sum(call.is_open for call in self._in_order)}>"

    def add(self, name: str, call_id: str) -> None:
        """Add a call."""
        call = _PendingCall(call_id)
        self._in_order.append(call)
        self._by_name.setdefault(name, deque()).append(call)
        self._by_id.setdefault(call_id, []).append(call)
        self._by_name_and_id.setdefault((name, call_id), deque()).append(call)

    def oldest(self, name: str | None = None) -> str | None:
        """Return the id of the first call without a result, of this name if given."""
        call = _first_open(self._in_order if name is None else self._by_name.get(name))
        return None if call is None else call.id

    def resolve(self, call_id: str) -> None:
        """Close all calls of this id."""
        for call in self._by_id.pop(call_id, ()):
            call.is_open = False

    def resolve_named(self, name: str, call_id: str) -> None:
        """Close the first open call of this name and id, if there is one."""
        call = _first_open(self._by_name_and_id.get((name, call_id)))
        if call is not None:
            call.is_open = False


def _first_open(calls: deque[_PendingCall] | None) -> _PendingCall | None:
    """Return the first open call; drop those before it."""
    while calls:
        if calls[0].is_open:
            return calls[0]
        calls.popleft()
    return None
