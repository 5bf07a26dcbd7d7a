"""The admin listener, on Tornado's own server: metrics, liveness, readiness; not for clients.

These need no key and respond in every state of the public side: scrapes run beside the loop. The
admin API, which needs a token, is called through `admin_api.py`.
"""

from __future__ import annotations

import asyncio
import gzip
import hmac
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from ipaddress import ip_address
from typing import Any
from uuid import UUID

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, SSLIOStream
from tornado.web import Application

from gw.config.addresses import ListenAddress
from gw.config.config import Config
from gw.error_bodies import dumps
from gw.errors import RETRY_AFTER
from gw.http import admin_api
from gw.http.acceptor import Acceptor
from gw.http.listening_sockets import bind
from gw.http.served_path import PathHandler, PathRefused, ServedPath, rules_of
from metrics.logs import EventLog

GZIP_LEVEL = 5
# Scrapers and probes are few. A further connection closes the one that has been idle longest, and
# none that is being served.
CONNECTIONS_MAX = 32
# An idle connection is closed after this time.
IDLE_SECONDS = 75.0
# The timeout of a body.
BODY_SECONDS = 120.0
UNKNOWN_HOST = "Metrics are not served under this name: list it in `admin_hosts`."
# A larger head closes the connection without a response.
HEADER_BYTES_MAX = 64 * 1024
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")

Render = Callable[[str], Awaitable[tuple[bytes, str]]]  # `Accept` → page and its content type
# The body of `/readyz`. Its `status` is "ok", or the reason against it in a word or two; `recorder`
# is there where a process runs without one, `database` while it answers and refuses.
Readiness = Callable[[], Awaitable[Mapping[str, str]]]
READY = "ok"


# Names outside the public DNS, which no web page of a stranger can use.
_INNER_NAMES = (".local", ".localhost", ".localdomain", ".internal", ".svc", ".home.arpa")


def is_inner(host: str, hosts: Collection[str]) -> bool:
    """Whether metrics may be requested under this name, in lower case, without its port.

    A web page can resolve its own name to this address and read the response (DNS rebinding); it
    cannot use an address, a name without dots, or a name within the operator's network.
    """
    name = host.removesuffix(".")
    if name in hosts or "." not in name or name.endswith(_INNER_NAMES):
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class _AdminHandler(PathHandler):
    """Any response of the admin listener, with its trace id and in JSON."""

    def is_known_host(self) -> bool:
        return is_inner(self.request.host_name, self.settings["hosts"])

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("x-gateway-trace", self.settings["new_id"]().hex)

    def respond_error(self, status: int, error: BaseException | None) -> None:
        message = UNKNOWN_HOST if status == 421 else self._reason
        self.finish(dumps({"error": {"message": message, "code": status}}))


class AdminNotFoundHandler(_AdminHandler):
    """Any other path."""

    def refused_method(self) -> PathRefused:
        return PathRefused(404)


class MetricsHandler(_AdminHandler):
    """`/metrics`, in the format that the scraper accepts."""

    async def on_get(self) -> None:
        render: Render = self.settings["render"]
        body, content_type = await render(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.set_header("Vary", "Accept, Accept-Encoding")
        if _takes_gzip(self.request.headers.get("Accept-Encoding", "")):
            # A page of some hundred kilobytes takes milliseconds, too long for the event loop.
            body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
            self.set_header("Content-Encoding", "gzip")
        self.write(body)


def _takes_gzip(accepted: str) -> bool:
    """Whether a list of codings accepts gzip with a weight above 0 (RFC 9110)."""
    for coding in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in coding.split(";"))
        if name == "gzip":
            return not any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters)
    return False


class LivenessHandler(_AdminHandler):
    """`/healthz`: the process responds. A busy or draining process is alive."""

    async def on_get(self) -> None:
        self.write(dumps({"status": "ok"}))

    on_head = on_get


class ReadinessHandler(_AdminHandler):
    """`/readyz`: 200 while new requests may be sent here, else 503 with the reason."""

    async def on_get(self) -> None:
        body: Mapping[str, str] = await self.settings["readiness"]()
        if body["status"] != READY:
            self.set_status(503)
            self.set_header("Retry-After", RETRY_AFTER)
        self.write(dumps(body))

    on_head = on_get


class AdminApiHandler(_AdminHandler):
    """`/admin/v1/…`: passes on a request of any method; the API knows the methods of its paths."""

    async def on_post(self) -> None:
        response = await self._passed_on()
        self.set_status(response.status)
        for name, value in response.headers.items():
            self.set_header(name, value)
        await self.finish(response.body)

    # HEAD is 405: no path has it, and a parent would wait for the worker's body.
    on_get = on_put = on_patch = on_delete = on_options = on_post

    async def _passed_on(self) -> admin_api.AdminResponse:
        respond: admin_api.Respond = self.settings["respond"]
        return await respond(
            admin_api.AdminRequest(
                method=self.request.method or "",
                path=self.request.path.removeprefix(admin_api.PREFIX),
                query=self.request.query,
                headers=self.request.headers,
                body=self.body,
                address=self._address(),
                trace=self._trace(),
            )
        )

    def respond_error(self, status: int, error: BaseException | None) -> None:
        code, message = "internal_error", self._reason
        if status == 405:
            code = "method_not_allowed"
        elif status == 413:
            code = "request_too_large"
            message = f"The body has more than {self.row.body_bytes_max} bytes."
        self.finish(admin_api.error_body(code, message, self._trace()))

    def _trace(self) -> str:
        return self._headers["x-gateway-trace"]

    def _address(self) -> str:
        """Return the client's address, from the parent if it forwards the request."""
        proof, _, address = self.request.headers.get(admin_api.PEER_HEADER, "").partition(" ")
        expected: str = self.settings["peer_proof"]
        if expected and address and hmac.compare_digest(proof.encode(), expected.encode()):
            return address
        return self.request.remote_ip or ""


# What the listener serves. Metrics are for scrapers within the operator's network; a probe comes
# under any name, and the API asks for a token.
PATHS = (
    ServedPath(r"/metrics", MetricsHandler),
    ServedPath(r"/healthz", LivenessHandler, ("GET", "HEAD"), any_host=True),
    ServedPath(r"/readyz", ReadinessHandler, ("GET", "HEAD"), any_host=True),
)
API_PATH = ServedPath(
    rf"{admin_api.PREFIX}.*",  # no group: the API decodes its paths, and has none for bad ones
    AdminApiHandler,
    ("GET", "POST", "DELETE", "PATCH", "PUT", "OPTIONS"),
    body_bytes_max=admin_api.BODY_BYTES_MAX,
    any_host=True,
)
NOT_FOUND = ServedPath("", AdminNotFoundHandler, (), any_host=True)


def make_admin_application(
    config: Config,
    *,
    render: Render,
    readiness: Readiness,
    new_id: Callable[[], UUID],
    respond: admin_api.Respond | None = None,
    peer_proof: str = "",
) -> Application:
    """Build the application.

    `respond` is the admin API, if it is enabled; `peer_proof` authenticates a parent that forwards
    its clients' requests (`admin_api.py`).
    """
    return Application(
        rules_of(PATHS if respond is None else (*PATHS, API_PATH)),
        default_handler_class=AdminNotFoundHandler,
        default_handler_args={"row": NOT_FOUND},
        log_function=lambda handler: None,
        hosts=frozenset((config.admin_listen.host, *config.admin_hosts)),
        render=render,
        readiness=readiness,
        respond=respond,
        new_id=new_id,
        peer_proof=peer_proof,
    )


class AdminServer:
    """The application on an address, on Tornado's own server; port 0 is any free port.

    `key` is the configuration key of the address; the console has such a server too.
    """

    def __init__(
        self,
        application: Application,
        address: ListenAddress,
        *,
        key: str = "admin_listen",
        tls: ssl.SSLContext | None = None,
        shares_port: bool = False,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        scheme = "http" if tls is None else "https"
        self._sockets, self.url = bind(address, key, scheme=scheme, shares_port=shares_port)
        self._tls = tls
        self._connections_max = connections_max
        self._server = HTTPServer(
            application,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=BODY_SECONDS,
            max_header_size=HEADER_BYTES_MAX,
            protocol=scheme,
        )
        self._streams: dict[IOStream, None] = {}  # least recently used first
        self._serving: set[IOStream] = set()  # those with a request that is being answered
        application.settings["server"] = self
        self._acceptor: Acceptor | None = None

    def __len__(self) -> int:
        """The number of connections."""
        return sum(not stream.closed() for stream in list(self._streams))

    async def start(self) -> None:
        """Accept connections."""
        self._acceptor = Acceptor(self._sockets, self._serve, EventLog("gw.http.admin"))

    async def close(self) -> None:
        """Close every remaining connection."""
        if self._acceptor is not None:
            self._acceptor.stop()
        for sock in self._sockets:
            sock.close()
        await self._server.close_all_connections()

    def _serve(self, connection: socket.socket, address: Any) -> None:
        buffer_bytes = self._server.max_buffer_size
        if self._tls is None:
            stream = IOStream(connection, max_buffer_size=buffer_bytes)
        else:
            wrapped = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
            stream = SSLIOStream(wrapped, max_buffer_size=buffer_bytes)
        if len(self._streams) >= self._connections_max and not self._make_room():
            stream.close()
            return
        self._streams[stream] = None
        self._server.handle_stream(stream, address)

    def _make_room(self) -> bool:
        """Close the connection that was used longest ago; False if all are being served.

        One whose client has not read its response gives way after those without a request.
        """
        self._streams = {one: None for one in self._streams if not one.closed()}
        self._serving.intersection_update(self._streams)
        if len(self._streams) < self._connections_max:
            return True
        idle = [one for one in self._streams if one not in self._serving]
        oldest = next((one for one in idle if not one.writing()), None) or next(iter(idle), None)
        if oldest is None:
            return False
        del self._streams[oldest]
        oldest.close()
        return True

    def begin(self, stream: IOStream) -> None:
        """A request of this connection is being answered: it is not closed to make room."""
        if stream in self._streams:
            del self._streams[stream]
            self._streams[stream] = None
            self._serving.add(stream)

    def end(self, stream: IOStream) -> None:
        """Its response is written."""
        self._serving.discard(stream)
