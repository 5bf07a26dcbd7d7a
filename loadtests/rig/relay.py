"""The delay of a network where the kernel has none: `python -m loadtests.rig.relay SECONDS ENDS…`.

Makes the ends of cables (ENDS, two by two) as TUN devices of its own network namespace, which may
then be moved to others, and carries each packet from one end to the other after so many seconds. It
prints `ready ends=COUNT`, and takes the devices with it when it ends. What the receiver's kernel
does with a packet, it does in this process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct
import sys
import time
from collections import deque
from select import select

# <linux/if_tun.h>: packets without Ethernet, as large as the sender's kernel left them.
TUN = "/dev/net/tun"
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
OFFLOAD = 0x01 | 0x02 | 0x04  # checksums, segmentation of TCP over IPv4 and IPv6
PR_SET_TIMERSLACK = 29
PACKET_BYTES_MAX = 10 + 65_535  # with the header that tells how it is to be segmented
AT_ONCE = 64  # packets of one end, before it is the other's turn
WAITING_MAX = 10_000  # then senders wait, in the queues of their devices


def open_end(name: str) -> int:
    """Make one end of a cable, as a file of packets. Raises OSError."""
    file = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
    flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(file, TUNSETOFFLOAD, OFFLOAD)
    return file


def carry(others: dict[int, int], delay: float) -> None:
    """Carry packets from each end to its other one, for ever."""
    waiting: deque[tuple[float, int, bytes]] = deque()  # all wait alike: the first is due first
    read, clock = os.read, time.perf_counter
    while True:
        ends = others if len(waiting) < WAITING_MAX else ()
        pause = max(0.0, waiting[0][0] - clock()) if waiting else None
        for end in select(ends, (), (), pause)[0]:
            try:
                for _ in range(AT_ONCE):
                    packet = read(end, PACKET_BYTES_MAX)
                    waiting.append((clock() + delay, others[end], packet))
            except BlockingIOError:
                continue
        now = clock()
        while waiting and waiting[0][0] <= now:
            _, end, packet = waiting.popleft()
            _put(end, packet)


def _put(end: int, packet: bytes) -> None:
    try:
        os.write(end, packet)
    except OSError as error:
        if error.errno != errno.EIO:  # an end that is not up loses it, like a cable
            raise


def main(delay: str, *names: str) -> None:
    """Make the ends, and carry until a signal comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it, after what talks here
    # Timers may not be late to spare wake-ups. With a real-time priority, too, each packet would
    # cost a wake-up of its own, and the rig's core be full with half as many of them.
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    ends = [open_end(name) for name in names]
    others = dict[int, int]()
    for one, other in zip(ends[::2], ends[1::2], strict=True):
        others |= {one: other, other: one}
    print(f"ready ends={len(ends)}", file=sys.stderr, flush=True)
    carry(others, float(delay))


if __name__ == "__main__":
    main(*sys.argv[1:])
