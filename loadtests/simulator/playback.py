"""Act out a script on a connection: waits, writes, cuts. What to act was decided in `script.py`.

Cancelling it is how the client's leaving arrives; nothing needs to be undone then.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from loadtests.simulator.exchange import Outcome
from loadtests.simulator.framing import split
from loadtests.simulator.script import Ending, Script
from loadtests.simulator.stats import Stats


class Wire(Protocol):
    """The connection as far as a delivery needs it."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait while the client reads too slowly."""

    async def cut(self, how: str) -> None:
        """End the connection by `reset` or `close`, after what was written has left."""


async def play(script: Script, wire: Wire, stats: Stats) -> Outcome:
    """Deliver the script: `completed`, or `cut` when the connection was ended on purpose."""
    directive = script.directive
    if directive.refuse:
        await wire.cut(directive.cut)
        return "cut"
    if directive.delay_headers_ms:
        await asyncio.sleep(directive.delay_headers_ms / 1000)
    if directive.pause == "headers":
        await stats.resumption()
    if directive.hang == "headers":
        await _for_ever()
    size = directive.split_bytes
    await _put(split(script.head, size) if size else [script.head], wire, stats)
    pause = directive.delay_event_ms / 1000
    for number, pieces in enumerate(script.steps):
        if number and pause:
            await asyncio.sleep(pause)
        if number == directive.pause:
            await stats.resumption()
        await _put(pieces, wire, stats)
        stats.sent(events=script.is_stream, count_bytes=0)
    if script.ending is Ending.HANG:
        await _for_ever()
    if script.ending is Ending.ENDLESS:
        await _pour(script, wire, stats, pause)
    if script.tail:
        await _put([script.tail], wire, stats)
    if script.ending is Ending.CUT:
        await wire.cut(directive.cut)
        return "cut"
    return "completed"


async def _put(pieces: list[bytes], wire: Wire, stats: Stats) -> None:
    """Write the pieces one by one; several of them are kept apart by a turn of the loop."""
    for piece in pieces:
        wire.write(piece)
        stats.sent(events=0, count_bytes=len(piece))
        if len(pieces) > 1:
            await asyncio.sleep(0)
    await wire.drain()


async def _pour(script: Script, wire: Wire, stats: Stats, pause: float) -> None:
    """Write more and more, as fast as the client reads."""
    assert script.more is not None
    number = len(script.steps)
    while True:
        await asyncio.sleep(pause)  # a pause of nothing still lets the others have their turn
        await _put([script.more(number)], wire, stats)
        stats.sent(events=script.is_stream, count_bytes=0)
        number += 1


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
