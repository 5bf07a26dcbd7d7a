"""The worker: a gateway on the parent's port, connected to it (see `worker.py`)."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gw.config.addresses import ListenAddress
from gw.config.config import Config
from gw.config.load import MAX_FILE_BYTES, load_text
from gw.processes.watchdog import beat_seconds
from gw.processes.worker import ALIVE
from gw.run import reload, run_gateway
from gw.serve import Gateway

# JSON escapes a non-ASCII character, of two bytes or more, as six.
LINE_BYTES_MAX = 3 * MAX_FILE_BYTES + 1024


class ParentGone(Exception):
    """The parent ended before it sent a configuration."""


def first_config(source: Path) -> Config:
    """Wait for the parent's first configuration. Raises ParentGone, ConfigFaults."""
    line = sys.stdin.buffer.readline()  # one line: the parent waits until the worker serves
    if not line:
        raise ParentGone
    return _config_of(line, source)


async def run_worker(
    config: Config, *, address: ListenAddress, parent_descriptor: int | None
) -> int:
    """Serve on the shared `address` until a signal or the end of the parent.

    `parent_descriptor` is a socket to the parent, which keeps the shared state.
    """

    def placed(read: Config) -> Config:
        # Only the parent requests metrics and readiness.
        return replace(read, listen=address, admin_listen=ListenAddress("127.0.0.1", 0))

    def read_config(line: bytes) -> Config:
        return placed(_config_of(line, config.source))

    async def listen_to_parent(gateway: Gateway) -> None:
        reader = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        # Only the parent handles it: a signal to the whole group would reload twice.
        loop.add_signal_handler(signal.SIGHUP, lambda: None)
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        try:
            while line := await reader.readline():
                accepted = reload(gateway, partial(read_config, line))
                _say({"reloaded": accepted is not None})
        finally:
            beating.cancel()
            transport.close()

    def announce(gateway: Gateway) -> None:
        _say({"admin": gateway.admin_url})

    beating = asyncio.create_task(_beat(beat_seconds(config.worker_silence_seconds)))
    try:
        return await run_gateway(
            placed(config),
            read_again=None,
            shares_port=True,
            parent_socket=None
            if parent_descriptor is None
            else socket.socket(fileno=parent_descriptor),
            announce=announce,
            lifeline=listen_to_parent,
        )
    finally:
        beating.cancel()


async def _beat(seconds: float) -> None:
    """Send signs of life from the loop to the parent, until that has ended.

    It does not wait for a parent that reads nothing because it is paused itself.
    """
    while True:
        if select.select((), (sys.stdout,), (), 0)[1]:
            try:
                _say(ALIVE)
            except BrokenPipeError:  # the end of its input says so, too
                return
        await asyncio.sleep(seconds)


def _config_of(line: bytes, source: Path) -> Config:
    return load_text(json.loads(line)["config"], os.environ, source=source)


def _say(reply: dict[str, Any]) -> None:
    # Unbuffered: what a parent that is gone does not take would be tried again at the exit.
    os.write(sys.stdout.fileno(), json.dumps(reply).encode() + b"\n")
