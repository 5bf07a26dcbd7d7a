"""The admin listener, on Tornado's own server: metrics, liveness, readiness; never for clients.

It needs no key, and answers whatever the public side is doing: scraping runs beside the loop.
"""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tornado.httpserver import HTTPServer
from tornado.web import Application, RequestHandler

from gw.config.config import ListenAddress
from gw.errors.render import dumps
from gw.errors.table import RETRY_AFTER
from gw.http.sockets import bind

GZIP_LEVEL = 5
# A kept connection that stays silent for so long is closed.
IDLE_SECONDS = 75.0
# A body that is not complete by then is not coming.
BODY_SECONDS = 120.0
# A head that is larger ends the connection without a word.
HEADER_BYTES_MAX = 64 * 1024
_NO_WEIGHT = re.compile(r"q\s*=\s*0(\.0{0,3})?")

Render = Callable[[str], Awaitable[tuple[bytes, str]]]  # `Accept` → page and its content type
Readiness = Callable[[], Awaitable[str | None]]  # why not ready, or None


class _AdminHandler(RequestHandler):
    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")
        self.set_header("x-gateway-trace", self.settings["new_id"]().hex)

    def compute_etag(self) -> None:
        """No ETags."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.finish(dumps({"error": {"message": self._reason, "code": status_code}}))


class AdminNotFoundHandler(_AdminHandler):
    """Any other path."""

    def prepare(self) -> None:
        self.send_error(404)


class MetricsHandler(_AdminHandler):
    """`/metrics`, in the format that the scraper asks for."""

    async def get(self) -> None:
        render: Render = self.settings["render"]
        body, content_type = await render(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.set_header("Vary", "Accept, Accept-Encoding")
        if _takes_gzip(self.request.headers.get("Accept-Encoding", "")):
            # A page of some hundred kilobytes takes milliseconds, which the loop has not.
            body = await asyncio.to_thread(gzip.compress, body, GZIP_LEVEL)
            self.set_header("Content-Encoding", "gzip")
        self.write(body)


def _takes_gzip(accepted: str) -> bool:
    """Whether a list of codings has gzip, and not with the weight 0 (RFC 9110)."""
    for coding in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in coding.split(";"))
        if name == "gzip":
            return not any(_NO_WEIGHT.fullmatch(parameter) for parameter in parameters)
    return False


class LivenessHandler(_AdminHandler):
    """`/healthz`: the process answers. A busy or draining process is alive."""

    def get(self) -> None:
        self.write(dumps({"status": "ok"}))

    head = get


class ReadinessHandler(_AdminHandler):
    """`/readyz`: 200 while new requests may be sent here, else 503 and why not."""

    async def get(self) -> None:
        why_not: str | None = await self.settings["readiness"]()
        if why_not is not None:
            self.set_status(503)
            self.set_header("Retry-After", RETRY_AFTER)
        self.write(dumps({"status": why_not or "ok"}))

    head = get


def make_admin_application(
    *, render: Render, readiness: Readiness, new_id: Callable[[], UUID]
) -> Application:
    """Build the application; `readiness` says in a word or two why not, e.g. "draining"."""
    return Application(
        [
            (r"/metrics", MetricsHandler),
            (r"/healthz", LivenessHandler),
            (r"/readyz", ReadinessHandler),
        ],
        default_handler_class=AdminNotFoundHandler,
        log_function=lambda handler: None,
        render=render,
        readiness=readiness,
        new_id=new_id,
    )


class AdminServer:
    """The application on an address, on Tornado's own server; port 0 takes any free port."""

    def __init__(
        self,
        application: Application,
        address: ListenAddress,
    ) -> None:
        self._sockets, self.url = bind(address)
        self._server = HTTPServer(
            application,
            idle_connection_timeout=IDLE_SECONDS,
            body_timeout=BODY_SECONDS,
            max_header_size=HEADER_BYTES_MAX,
        )

    def __repr__(self) -> str:
        return f"<AdminServer {self.url}>"

    async def start(self) -> None:
        """Accept connections."""
        self._server.add_sockets(self._sockets)

    async def close(self) -> None:
        """Close every connection that is left."""
        self._server.stop()
        await self._server.close_all_connections()
