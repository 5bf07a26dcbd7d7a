"""The calls of a request that nothing has answered yet, for results that do not name theirs by id.

Every operation takes the same time however many calls are open.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True)
class _Call:
    id: str
    is_open: bool = True


class OpenCalls:
    """Calls in the order they were made. Ids and names may be there more than once."""

    __slots__ = ("_by_id", "_by_name", "_by_name_and_id", "_in_order")

    def __init__(self) -> None:
        self._in_order: deque[_Call] = deque()
        self._by_name: dict[str, deque[_Call]] = {}
        self._by_id: dict[str, list[_Call]] = {}
        self._by_name_and_id: dict[tuple[str, str], deque[_Call]] = {}

    def __repr__(self) -> str:
        return f"<OpenCalls {sum(call.is_open for call in self._in_order)}>"

    def add(self, name: str, call_id: str) -> None:
        """A call was made."""
        call = _Call(call_id)
        self._in_order.append(call)
        self._by_name.setdefault(name, deque()).append(call)
        self._by_id.setdefault(call_id, []).append(call)
        self._by_name_and_id.setdefault((name, call_id), deque()).append(call)

    def oldest(self, name: str | None = None) -> str | None:
        """The id of the first call, of this name if there is one, that nothing answered yet."""
        call = _first_open(self._in_order if name is None else self._by_name.get(name))
        return None if call is None else call.id

    def resolve(self, call_id: str) -> None:
        """All calls of this id are answered."""
        for call in self._by_id.pop(call_id, ()):
            call.is_open = False

    def resolve_named(self, name: str, call_id: str) -> None:
        """The first open call of this name and id is answered, if there is one."""
        call = _first_open(self._by_name_and_id.get((name, call_id)))
        if call is not None:
            call.is_open = False


def _first_open(calls: deque[_Call] | None) -> _Call | None:
    """The first that is open; those before it are looked at this once."""
    while calls:
        if calls[0].is_open:
            return calls[0]
        calls.popleft()
    return None
