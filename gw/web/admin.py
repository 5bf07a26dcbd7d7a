"""The admin listener's application: metrics, liveness, readiness. Never on the public listener.

It needs no key, and answers whatever the public side is doing: scraping runs beside the loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

from tornado.web import Application, RequestHandler

from gw.web.errors import RETRY_AFTER
from gw.web.render import dumps

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


class NotFoundHandler(_AdminHandler):
    """Any other path."""

    def prepare(self) -> None:
        self.send_error(404)


class MetricsHandler(_AdminHandler):
    """`/metrics`, in the format that the scraper asks for."""

    async def get(self) -> None:
        render: Render = self.settings["render"]
        body, content_type = await render(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.write(body)


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
        default_handler_class=NotFoundHandler,
        log_function=lambda handler: None,
        render=render,
        readiness=readiness,
        new_id=new_id,
    )
