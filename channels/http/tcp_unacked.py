"""Whether all that was written to a connection has arrived, as the operating system knows it.

TCP's acknowledgements say what the other side's system has taken; with the end of the stream that
comes from there, they say what it had taken when it closed. Only Linux and its like can be asked.
"""

from __future__ import annotations

import asyncio
import struct

try:
    import fcntl
    import termios
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]


def has_unacknowledged(transport: asyncio.BaseTransport) -> bool:
    """Whether anything written is still on its way; False where that cannot be asked."""
    if fcntl is None:
        return False
    sock = transport.get_extra_info("socket")
    try:
        count = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, struct.pack("i", 0))
    except OSError:
        return False
    return any(count)
