"""Look-ups of names that strangers chose: of webhooks, and of links in upstreams' answers.

The resolver may take half a minute for a name that nobody serves. The event loop's own look-ups
have two threads, so a few such names would hold up those of all upstreams; these have threads of
their own, shared by name.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from asyncio import AbstractEventLoop, Future
from collections.abc import Sequence
from typing import Any

from channels.shares import Shares

LOOKUPS_MAX = 32
LOOKUPS_EACH_MAX = 2  # of one name

_shares = Shares(LOOKUPS_MAX, LOOKUPS_EACH_MAX)

Found = Sequence[tuple[Any, ...]]


async def look_up(host: str, port: int) -> Found:
    """Return what `socket.getaddrinfo` does for a stream. Raises its OSError and UnicodeError."""
    await _shares.take(host)
    loop = asyncio.get_running_loop()
    found: Future[Found] = loop.create_future()
    # No pool: at the end of the process it would wait for its threads.
    arguments = (loop, found, host, port)
    threading.Thread(target=_look_up, args=arguments, name="look-up", daemon=True).start()
    return await found


def _look_up(loop: AbstractEventLoop, found: Future[Found], host: str, port: int) -> None:
    addresses: Found | Exception
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        addresses = error
    try:
        loop.call_soon_threadsafe(_end, found, host, addresses)
    except RuntimeError:  # the loop is closed, and nobody waits
        _shares.give_back(host)


def _end(found: Future[Found], host: str, addresses: Found | Exception) -> None:
    """Give the thread back, also after the one who asked has stopped to wait."""
    _shares.give_back(host)
    if found.done():
        return
    if isinstance(addresses, Exception):
        found.set_exception(addresses)
    else:
        found.set_result(addresses)
