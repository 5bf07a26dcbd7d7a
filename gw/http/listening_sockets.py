"""Listening sockets: bound, and closed without losing connections under way.

Closing a listening socket resets every connection that waits to be accepted or is in its
handshake; another socket on the same port (SO_REUSEPORT) does not inherit them. So new handshakes
are stopped first: the kernel drops the first packet, and the client, which repeats it after a
second, reaches the next process on the port, or is refused. Handshakes under way get a moment to
end. Then the queue is emptied by accepting, and the socket is closed.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tornado.netutil import bind_sockets

from gw.config.addresses import ListenAddress

BACKLOG = 4096
# One round trip to a client on the same continent.
HANDSHAKE_SECONDS = 0.1

# Of <asm-generic/socket.h>; Python has no name for it.
_SO_ATTACH_FILTER = 26
# Instructions (code, true, false, operand) of the kernel's classic packet filter, on a packet from
# its TCP header on: drop a packet that has SYN without ACK.
_FLAGS_BYTE, _SYN, _SYN_ACK, _ALL = 13, 0x02, 0x12, 0xFFFFFFFF
_DROP_SYN = (
    (0x30, 0, 0, _FLAGS_BYTE),  # load the byte
    (0x54, 0, 0, _SYN_ACK),  # and
    (0x15, 0, 1, _SYN),  # equal?
    (0x06, 0, 0, 0),  # return
    (0x06, 0, 0, _ALL),
)


class AddressRefused(OSError):
    """An address cannot be listened on; the message contains the key of the configuration."""


def bind(
    address: ListenAddress,
    key: str,
    *,
    scheme: str = "http",
    shares_port: bool = False,
    is_open: bool = True,
) -> tuple[list[socket.socket], str]:
    """Return sockets of the address, and its URL. Raises AddressRefused, which contains `key`.

    `shares_port` lets several processes bind the same port. Sockets that are not open reserve the
    port and accept no connections.
    """
    with _naming(address, key):
        if is_open:
            sockets = bind_sockets(
                address.port, address.host, backlog=BACKLOG, reuse_port=shares_port
            )
        else:
            sockets = _reserve(address, shares_port=shares_port)
    for sock in sockets:  # inherited by accepted sockets: events of a stream must not wait
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets, f"{scheme}://{ListenAddress(address.host, sockets[0].getsockname()[1])}"


def check_free(address: ListenAddress, key: str, *, shares_port: bool = False) -> None:
    """Raise AddressRefused if `bind` would. No connection is accepted meanwhile."""
    for sock in bind(address, key, shares_port=shares_port, is_open=False)[0]:
        sock.close()


@contextmanager
def _naming(address: ListenAddress, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise AddressRefused(f"{key}: {address}: {reason}") from error


def _reserve(address: ListenAddress, *, shares_port: bool) -> list[socket.socket]:
    """Bind a socket to each address that `bind_sockets` uses for a host, without listening."""
    found = socket.getaddrinfo(
        address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    port = address.port
    try:
        for family, kind, protocol, _, sockaddr in sorted(set(found), key=lambda one: one[0]):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError as error:
                if error.errno == errno.EAFNOSUPPORT:  # no IPv6
                    continue
                raise
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares_port))
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind((sockaddr[0], port, *sockaddr[2:]))
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL or address.host != "localhost":
                    raise
                sockets.remove(sock)  # IPv6 without its loopback address
                sock.close()
                continue
            port = sock.getsockname()[1]
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def refuse_handshakes(listening: socket.socket) -> bool:
    """Let the kernel drop new handshakes; return False where it cannot (only Linux can)."""
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
    """Close listening sockets; return their unaccepted connections to the caller."""
    kept = [sock.dup() for sock in sockets]  # the queue ends with the last one
    try:
        refusing = [refuse_handshakes(sock) for sock in kept]
        if any(refusing):
            await asyncio.sleep(HANDSHAKE_SECONDS)
        stop()
        await asyncio.sleep(0)  # connections accepted in this iteration are registered in the next
        return [connection for sock in kept for connection in _waiting(sock)]
    finally:
        for sock in kept:
            sock.close()


def _waiting(listening: socket.socket) -> Iterator[socket.socket]:
    listening.setblocking(False)
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionAbortedError:  # disconnected meanwhile
            continue
        except OSError:  # the queue is empty, or the limit of open files is reached
            return
        connection.setblocking(False)
        yield connection
