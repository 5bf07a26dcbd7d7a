"""Listening sockets: bound, and closed without losing a connection that was on its way.

A listening socket that is closed resets every connection that waits to be accepted, and every one
whose handshake is under way; another socket on the same port (SO_REUSEPORT) inherits neither. So
first no handshake begins any more: the kernel drops its first packet, and the client, which sends
it again after a second, finds the next process on the port, or is refused. Handshakes under way get
a moment to end. Then what waits is taken out of the queue, and the socket is closed.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import struct
from collections.abc import Callable, Iterator, Sequence

from tornado.netutil import bind_sockets

from gw.config.config import ListenAddress

BACKLOG = 4096
# One round trip to a client on the same continent.
HANDSHAKE_SECONDS = 0.1

# Of <asm-generic/socket.h>; Python has no name for it.
_SO_ATTACH_FILTER = 26
# Instructions (code, true, false, operand) on a packet from its TCP header on, in the kernel's
# classic packet filter: none of it is kept when of SYN and ACK it has SYN alone.
_FLAGS_BYTE, _SYN, _SYN_ACK, _ALL = 13, 0x02, 0x12, 0xFFFFFFFF
_DROP_SYN = (
    (0x30, 0, 0, _FLAGS_BYTE),  # load the byte
    (0x54, 0, 0, _SYN_ACK),  # and
    (0x15, 0, 1, _SYN),  # equal?
    (0x06, 0, 0, 0),  # return
    (0x06, 0, 0, _ALL),
)


def bind(
    address: ListenAddress, *, scheme: str = "http", shares_port: bool = False, is_open: bool = True
) -> tuple[list[socket.socket], str]:
    """Sockets of the address, and how a client writes it.

    `shares_port` lets several processes take the same port. A socket that is not open has the
    port and takes no connections.
    """
    if is_open:
        sockets = bind_sockets(address.port, address.host, backlog=BACKLOG, reuse_port=shares_port)
    else:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, sockaddr = found[0]
        sockets = [socket.socket(family, kind, protocol)]
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sockets[0].bind(sockaddr)
    for sock in sockets:  # what is accepted has it too: an event of a stream must not wait
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets, f"{scheme}://{ListenAddress(address.host, sockets[0].getsockname()[1])}"


def refuse_handshakes(listening: socket.socket) -> bool:
    """Have the kernel drop what would begin a handshake; False where it cannot (only Linux can)."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in _DROP_SYN)
    kept = ctypes.create_string_buffer(code)
    program = struct.pack("HP", len(_DROP_SYN), ctypes.addressof(kept))
    try:
        listening.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
    except OSError:
        return False
    return True


async def stop_listening(
    sockets: Sequence[socket.socket], stop: Callable[[], None]
) -> list[socket.socket]:
    """Close listening sockets; return connections that were not accepted, for the caller.

    `stop` ends the accepting loop, and may close them.
    """
    kept = [sock.dup() for sock in sockets]  # with the last of them the queue would be gone
    try:
        refusing = [refuse_handshakes(sock) for sock in kept]
        if any(refusing):
            await asyncio.sleep(HANDSHAKE_SECONDS)
        stop()
        await asyncio.sleep(0)  # what was accepted in this turn of the loop is known in the next
        return [connection for sock in kept for connection in _waiting(sock)]
    finally:
        for sock in kept:
            sock.close()


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    listening.setblocking(False)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:  # it has left meanwhile
            continue
        except OSError:  # none waits, or no more files may be opened
            return
        connection.setblocking(False)
        yield connection
