"""How the connections of a channel are made, if not the default way: a proxy, other certificates.

Connections are shared only by requests of the same origin and the same transport.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from urllib.parse import quote, unquote

from msgspec import Struct

from channels.errors import UpstreamUnreachable
from channels.files import check_regular

# Limit of a proxy's response to CONNECT; common proxies send a few hundred bytes.
PROXY_HEAD_BYTES_MAX = 8 * 1024

_PROXY_URL = re.compile(
    r"http://(?:(?P<user>[^\s:@/]+)(?::(?P<password>[^\s@/]*))?@)?"
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9._-]+):(?P<port>[1-9][0-9]{0,4})/?",
    re.IGNORECASE | re.ASCII,
)
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: [^\r\n]*)?\r\n")


class Proxy(Struct, frozen=True):
    """A proxy that tunnels by CONNECT. `credentials` are `user:password` or empty."""

    host: str
    port: int
    credentials: str = ""

    def __repr__(self) -> str:
        return f"<Proxy {self.host}:{self.port}>"

    @classmethod
    def of(cls, url: str) -> Proxy:
        """Parse `http://[user:password@]host:port`. Raises ValueError, which does not quote it."""
        found = _PROXY_URL.fullmatch(url)
        if found is None or int(found["port"]) > 65_535:
            raise ValueError("no http://[user:password@]host:port")
        credentials = ""
        if found["user"] is not None:
            credentials = f"{unquote(found['user'])}:{unquote(found['password'] or '')}"
        return cls(found["host"].strip("[]"), int(found["port"]), credentials)

    @property
    def url(self) -> str:
        """The URL of the proxy, for libraries that make their own connections."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        user, _, password = self.credentials.partition(":")
        login = f"{quote(user, safe='')}:{quote(password, safe='')}@" if self.credentials else ""
        return f"http://{login}{host}:{self.port}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Its password, and its encoded form in a request."""
        _, _, password = self.credentials.partition(":")
        return (password, self._encoded) if password else ()

    @property
    def _encoded(self) -> str:
        return b64encode(self.credentials.encode()).decode()

    def connect_head(self, host: str, port: int) -> bytes:
        """Encode the request for a tunnel to `host`, given without brackets."""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if self.credentials:
            lines.append(f"Proxy-Authorization: Basic {self._encoded}")
        return "\r\n".join([*lines, "", ""]).encode()

    async def tunnel(self, sock: socket.socket, host: str, port: int) -> None:
        """Tunnel a connected socket through the proxy. Raises UpstreamUnreachable and OSError."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(sock, self.connect_head(host, port))
        head = b""
        while b"\r\n\r\n" not in head:
            piece = await loop.sock_recv(sock, PROXY_HEAD_BYTES_MAX - len(head))
            head += piece
            if not piece or len(head) >= PROXY_HEAD_BYTES_MAX:
                raise UpstreamUnreachable(f"{self!r}: no answer to CONNECT")
        status = _STATUS.match(head)
        if status is None or not 200 <= int(status[1]) < 300:
            found = "no HTTP" if status is None else f"status {int(status[1])}"
            raise UpstreamUnreachable(f"{self!r}: {found} to CONNECT")
        if head.index(b"\r\n\r\n") + 4 != len(head):
            # An upstream sends nothing before a request.
            raise UpstreamUnreachable(f"{self!r}: more than an answer to CONNECT")


class Transport(Struct, frozen=True):
    """How the connections of a channel are made. The files are PEM, read for the first connection
    and again when they are renewed.

    `ca_file` has the trusted CAs instead of the system's; `certificate` and `key` identify the
    client. Empty: none.
    """

    proxy: Proxy | None = None
    ca_file: str = ""
    certificate: str = ""
    key: str = ""

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS settings. Raises OSError (including SSLError) and ValueError."""
        check_regular(*filter(None, (self.ca_file, self.certificate, self.key)))
        context = verifying(self.ca_file)
        if self.certificate:
            context.load_cert_chain(self.certificate, self.key, password="")  # never prompt
        return context


def verifying(ca_file: str = "") -> ssl.SSLContext:
    """Return TLS settings that verify the certificate and its host name."""
    context = ssl.create_default_context(cafile=ca_file or None)
    context.set_alpn_protocols(["http/1.1"])
    return context
