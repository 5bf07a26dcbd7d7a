"""An upstream whose every task runs for ever: python -m loadtests.jobs.upstream.

It prints `ready listen=URL` and gives every request one canned answer: what it costs must be little
beside the poll that is measured.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import cast

import uvloop

BODY = b'{"status":"running","progress":50}'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
    len(BODY),
    BODY,
)
END_OF_HEAD = b"\r\n\r\n"


class Connection(asyncio.Protocol):
    """Answers each head; polls have no body."""

    def __init__(self) -> None:
        self._rest = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(END_OF_HEAD)
        if heads:
            self._transport.write(ANSWER * len(heads))


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    print(f"ready listen=http://{host}:{port}", file=sys.stderr, flush=True)
    await stopped.wait()
    server.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
