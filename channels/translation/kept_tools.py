"""Tools as they were read, and written, for an earlier request with the same ones.

An agent's tools are most of its request, and the same bytes in each. What was made of them is kept
by these bytes: the canonical tools, and for each protocol their form there and what it dropped.
Both only depend on the bytes, so that nothing of a request shows in another. Whoever gets them must
not change them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from msgspec import Raw, Struct

from channels.json.value import value_in
from channels.translation.losses import LossReport
from channels.translation.model import ClientProtocol, Tool

# The memory of what one protocol's keeper has, in one process.
KEPT_BYTES_MAX = 8 * 1024 * 1024
# Longer JSON text would push out too much.
KEY_BYTES_MAX = 128 * 1024
# The memory of an object or a member, at most; texts are there twice, in the key and decoded.
_VALUE_BYTES = 80

T = TypeVar("T")


class KeptTools(tuple[Tool, ...]):
    """Tools that may come again, with what was made of them and what that dropped, by its maker."""

    made: dict[object, tuple[object, list[str]]]

    def __new__(cls, tools: Iterable[Tool]) -> KeptTools:
        self = super().__new__(cls, tools)
        self.made = {}
        return self


class StatedTools(Struct, frozen=True):
    """The tools of a request; `left_over` are members that are no function."""

    tools: tuple[Tool, ...]
    left_over: Mapping[str, object]


class ToolKeeper:
    """The tools of the latest requests of one client's protocol, by their bytes."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept: OrderedDict[bytes, StatedTools] = OrderedDict()
        self.bytes = 0

    def __repr__(self) -> str:
        return f"<ToolKeeper {len(self._kept)} entries, {self.bytes} bytes>"

    def find(self, stated: object) -> StatedTools | None:
        """Return the tools of a member, if its JSON text was read before."""
        if not isinstance(stated, Raw) or len(stated) > KEY_BYTES_MAX:
            return None
        found = self._kept.get(key := bytes(stated))
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, stated: object, tools: StatedTools) -> StatedTools:
        """Keep the tools that were read from a member, if it has JSON text; return them."""
        if not isinstance(stated, Raw) or len(stated) > KEY_BYTES_MAX:
            return tools
        key = bytes(stated)
        made = StatedTools(KeptTools(tools.tools), tools.left_over)
        self._kept[key] = made
        self.bytes += _size_of(key)
        while self.bytes > self._bytes_max:
            forgotten, _ = self._kept.popitem(last=False)
            self.bytes -= _size_of(forgotten)
        return made


def value_of(stated: object) -> object:
    """Return the value of a member. Raises InvalidRequest for a number that is too long."""
    return value_in(stated) if isinstance(stated, Raw) else stated


def _size_of(key: bytes) -> int:
    """Return the memory of an entry, estimated by the values in its JSON text."""
    values = key.count(b",") + key.count(b"{") + key.count(b"[")
    return 2 * len(key) + values * _VALUE_BYTES


Make = Callable[[Sequence[Tool], ClientProtocol, LossReport], T]


def made_once(
    tools: Sequence[Tool], make: Make[T], origin: ClientProtocol, report: LossReport
) -> T:
    """Return what `make` makes of a client's tools, and report what it dropped.

    Of kept tools it is made once. `make` is a function of a module, so that there are few of them.
    """
    if not isinstance(tools, KeptTools):
        return make(tools, origin, report)
    if make not in tools.made:
        own = LossReport()
        tools.made[make] = (make(tools, origin, own), own.dropped)
    made, dropped = tools.made[make]
    for field in dropped:
        report.drop(field)
    return cast(T, made)
