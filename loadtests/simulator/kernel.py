"""What the operating system can say about a socket's send queue."""

from __future__ import annotations

import fcntl
import struct
import termios


def unsent_bytes(descriptor: int) -> int:
    """Bytes written but not yet acknowledged by the other side; 0 where that cannot be asked."""
    try:
        answer = fcntl.ioctl(descriptor, termios.TIOCOUTQ, struct.pack("i", 0))
    except OSError:
        return 0
    (waiting,) = struct.unpack("i", answer)
    return int(waiting)
