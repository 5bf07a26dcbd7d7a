"""A listening address: its sockets, and the one that runs on Tornado's own HTTP server.

That is the admin listener's alone; clients come to `front/`. It has the bounds that any server
needs: idle, header and body time-outs, and a limit on headers.
"""

from __future__ import annotations

import socket
import ssl

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application

from gw.config.config import Address

# A kept connection that stays silent for so long is closed.
IDLE_SECONDS = 75.0
# A body that is not complete by then is not coming.
BODY_SECONDS = 120.0
# A head that is larger ends the connection without a word.
HEADER_BYTES_MAX = 64 * 1024
BACKLOG = 4096


def bind(
    address: Address, *, scheme: str = "http", shares_port: bool = False, is_open: bool = True
) -> tuple[list[socket.socket], str]:
    """Sockets of the address, and how a client writes it.

    `shares_port` lets several processes take the same port. A socket that is not open has the
    port and takes no connections.
    """
    if is_open:
        sockets = bind_sockets(address.port, address.host, backlog=BACKLOG, reuse_port=shares_port)
    else:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, place = found[0]
        sockets = [socket.socket(family, kind, protocol)]
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sockets[0].bind(place)
    for sock in sockets:  # what is accepted has it too: an event of a stream must not wait
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sockets, f"{scheme}://{Address(address.host, sockets[0].getsockname()[1])}"


class Listener:
    """An application on an address; port 0 takes any free port, `url` says which."""

    def __init__(
        self,
        application: Application,
        address: Address,
        *,
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
    ) -> None:
        scheme = "http" if tls is None else "https"
        self._sockets, self.url = bind(address, scheme=scheme, shares_port=shares_port)
        self._server = HTTPServer(
            application,
            ssl_options=tls,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=BODY_SECONDS,
            max_header_size=HEADER_BYTES_MAX,
        )

    def __repr__(self) -> str:
        return f"<Listener {self.url}>"

    async def start(self) -> None:
        """Accept connections."""
        self._server.add_sockets(self._sockets)

    async def close(self) -> None:
        """Close every connection that is left."""
        self._server.stop()
        await self._server.close_all_connections()
