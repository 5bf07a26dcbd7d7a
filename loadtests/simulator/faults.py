"""The book of standing directives: per upstream key, per listening port, and for everybody.

It decides which layers apply to the next request (`rate` by the seed, `times` by counting down).
A request's own directive is not here: it travels with the request (`engine.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from loadtests.simulator.directives import PARTS, Layer, from_value

MAX_CHANNELS = 10_000  # far above any test; stops a loop that forgets to clear


def port_channel(port: int) -> str:
    """The channel name under which a listening port has its faults."""
    return f"port:{port}"


@dataclass(slots=True)
class Fault:
    """One standing layer; `remaining` counts down when it was given `times`.

    `parts` are those of its members that are directives for other requests than a submit.
    """

    layer: Layer
    serial: int
    remaining: int | None
    parts: dict[str, Fault] = field(default_factory=dict)


def fault_of(layer: Layer, serial: int = 0) -> Fault:
    """A layer ready to be taken, its parts beside it."""
    parts = {
        name: fault_of(from_value(layer.members[name], is_part=True), serial)
        for name in PARTS
        if layer.members.get(name) is not None
    }
    return Fault(layer, serial, layer.members.get("times"), parts)


class FaultBook:
    """Standing directives, weakest first: everybody, the port, the upstream key."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self._serial = 0
        self._everybody: Fault | None = None
        self._channels: dict[str, Fault] = {}
        self.is_empty = True

    def __repr__(self) -> str:
        channels = ", ".join(sorted(self._channels)) or "none"
        return f"<FaultBook everybody={self._everybody is not None} channels: {channels}>"

    def put(self, channel: str | None, directive: Mapping[str, Any] | Layer) -> None:
        """Set the directive of a channel, or of everybody for None; raises DirectiveError."""
        layer = directive if isinstance(directive, Layer) else from_value(directive)
        self._serial += 1
        fault = fault_of(layer, self._serial)
        if channel is None:
            self._everybody = fault
        else:
            assert channel in self._channels or len(self._channels) < MAX_CHANNELS
            self._channels[channel] = fault
        self.is_empty = False

    def clear(self, channel: str | None) -> bool:
        """Take a directive away; False when there was none."""
        if channel is None:
            was_there = self._everybody is not None
            self._everybody = None
        else:
            was_there = self._channels.pop(channel, None) is not None
        self.is_empty = self._everybody is None and not self._channels
        return was_there

    def clear_all(self) -> None:
        self._everybody = None
        self._channels.clear()
        self.is_empty = True

    def take(self, api_key: str, port: int) -> list[Fault]:
        """The faults that apply to this request, weakest first; counts `times` down."""
        if self.is_empty:
            return []
        found = (
            (None, self._everybody),
            (port_channel(port), self._channels.get(port_channel(port))),
            (api_key, self._channels.get(api_key)),
        )
        taken: list[Fault] = []
        for channel, fault in found:
            if fault is None or not self.applies(fault.layer):
                continue
            taken.append(fault)
            if fault.remaining is not None:
                fault.remaining -= 1
                if fault.remaining == 0:
                    self.clear(channel)
        return taken

    def take_part(self, api_key: str, port: int, part: str) -> list[Layer]:
        """The same for a request that is no submit: of each fault what is meant for such a one."""
        if self.is_empty:
            return []
        standing = (
            self._everybody,
            self._channels.get(port_channel(port)),
            self._channels.get(api_key),
        )
        taken = [self.part_of(fault.parts, part) for fault in standing if fault is not None]
        return [layer for layer in taken if layer is not None]

    def part_of(self, parts: dict[str, Fault], part: str) -> Layer | None:
        """One of a directive's parts, if it applies this time; counts `times` down."""
        fault = parts.get(part)
        if fault is None or not self.applies(fault.layer):
            return None
        if fault.remaining is not None:
            fault.remaining -= 1
            if fault.remaining == 0:
                del parts[part]
        return fault.layer

    def applies(self, layer: Layer) -> bool:
        """Whether this time the layer's `rate` lets it act; the seed decides."""
        rate = layer.rate
        return rate >= 1.0 or self._rng.random() < rate

    def describe(self) -> dict[str, Any]:
        """What stands now, ready to be written as JSON."""

        def one(fault: Fault) -> dict[str, Any]:
            members: dict[str, Any] = msgspec.to_builtins(dict(fault.layer.members))
            if fault.remaining is not None:
                members["times"] = fault.remaining
            return members

        return {
            "default": one(self._everybody) if self._everybody else None,
            "channels": {name: one(fault) for name, fault in self._channels.items()},
        }
