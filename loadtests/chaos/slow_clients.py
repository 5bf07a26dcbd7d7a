"""Clients that stop reading, and clients that send a byte a second, beside the ordinary ones."""

from __future__ import annotations

import asyncio

from loadtests.chaos.calls import conversation
from loadtests.chaos.client import Connection
from loadtests.chaos.load import Load

COUNT = 20
RECEIVE_BYTES = 4096
BYTE_SECONDS = 1.0
# An endless stream costs what was delivered until its client left.
ANY_PRICE = 10**12


async def read_nothing(load: Load, port: int, seconds: float) -> None:
    """So many ask for streams without end and read nothing of them, then leave."""
    connections = []
    for _ in range(COUNT):
        connection = await Connection.open(port, receive_bytes=RECEIVE_BYTES, reads=False)
        connections.append(connection)
        number = load.number()
        sent = conversation("stream", number, endless=True)._replace(price_nano_usd=ANY_PRICE)
        call = load.begin("stream", number, sent)
        call.seen.end, call.is_over = "left", True
        connection.send(sent.encode(load.key()))
    await asyncio.sleep(seconds)
    for connection in connections:
        connection.leave()


async def dribble(load: Load, port: int, seconds: float) -> None:
    """So many send the head of a request a byte a second, as many its body; then they leave."""
    whole = conversation("chat", load.number()).encode(load.key())
    head_bytes = whole.index(b"\r\n\r\n") + 4
    load.strangers += 2 * COUNT
    begun = [b""] * COUNT + [whole[:head_bytes]] * COUNT
    await asyncio.gather(*(_dribble(port, whole, sent, seconds) for sent in begun))


async def _dribble(port: int, request: bytes, begun: bytes, seconds: float) -> None:
    connection = await Connection.open(port)
    connection.send(begun)
    for at in range(round(seconds / BYTE_SECONDS)):
        if not connection.is_open:
            break
        connection.send(request[len(begun) + at : len(begun) + at + 1])
        await asyncio.sleep(BYTE_SECONDS)
    connection.leave()
