"""Endpoints to be tested with: one that echoes, one that works until told, one that streams."""

import asyncio
from collections.abc import Callable
from typing import Any

from channels import families
from gw.api.application import GatewayApplication
from gw.api.endpoint import Endpoint
from gw.api.handler import ApiHandler
from gw.error_bodies import dumps
from gw.errors import NOT_FOUND, GatewayError
from gw.http.tornado.handler import methods_of
from tests.unit.api.fakes import World

HUGE_BYTES = 30_000_000


class EchoHandler(ApiHandler):
    """Answers with what it was sent."""

    async def on_post(self) -> None:
        body = self.request.body
        self.write(dumps({"bytes": len(body), "text": body[:50].decode("latin1")}))


class PolledHandler(EchoHandler):
    """A billed endpoint whose work is read, too."""

    async def on_get(self) -> None:
        if self.request.query_arguments:
            raise GatewayError(NOT_FOUND, "There is no such echo.")
        self.write(b"{}")


class FreeHandler(ApiHandler):
    """Two methods."""

    async def on_get(self) -> None:
        self.write(b"{}")

    async def on_delete(self) -> None:
        self.set_status(204)


class Script:
    """What a working endpoint does, and what became of it."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.may_end = asyncio.Event()  # held back by a test to see who waits for the end
        self.may_end.set()
        self.events: list[str] = []
        self.raises: Callable[[], BaseException] | None = None


class WorkHandler(ApiHandler):
    """Works until told to go on; ends well, with a last step that a cancellation must not hit."""

    def initialize(self, script: Script) -> None:
        self.script = script

    async def on_post(self) -> None:
        script = self.script
        script.begun.set()
        try:
            await self.work()
            script.events.append("done")
        except asyncio.CancelledError:
            script.events.append(f"cancelled gone={self.request.client_gone}")
            raise
        finally:
            await asyncio.shield(script.may_end.wait())
            script.events.append("ended")

    async def work(self) -> None:
        await self.script.go_on.wait()
        if self.script.raises is not None:
            raise self.script.raises()
        self.write(b'{"worked":true}')


class StreamHandler(WorkHandler):
    """The same, with its headers and one event out before it works."""

    async def work(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.write(b"data: 1\n\n")
        await self.flush()
        await super().work()


class HugeHandler(WorkHandler):
    """One answer, larger than what the sockets hold."""

    async def work(self) -> None:
        self.finish(b"x" * HUGE_BYTES)


class SizedHandler(WorkHandler):
    """A response whose head says how long it is, and some of it, before the work."""

    async def work(self) -> None:
        self.set_header("Content-Length", "17")
        self.write(b"x" * 2)
        await self.flush()
        await super().work()


class TorrentHandler(WorkHandler):
    """Writes for as long as the client reads."""

    async def work(self) -> None:
        while True:
            self.write(b"x" * 65536)
            await self.flush()


def make_app(world: World, script: Script | None = None) -> GatewayApplication:
    scripted = {"script": script}
    return GatewayApplication(
        [
            billed("/v1/echo", EchoHandler),
            billed("/v1/polled", PolledHandler),
            FREE_ROW,
            billed("/v1/messages", EchoHandler, family=families.MESSAGES, agent_keys_allowed=True),
            billed("/v1beta/native", EchoHandler, family=families.GEMINI),
            billed("/v1/work", WorkHandler, options=scripted),
            billed("/v1/stream", StreamHandler, options=scripted),
            billed("/v1/huge", HugeHandler, options=scripted),
            billed("/v1/sized", SizedHandler, options=scripted),
            billed("/v1/torrent", TorrentHandler, options=scripted),
            Endpoint("/v1/named", r"/v1/named/([^/]+)", ("GET",), NamedHandler, auth="none"),
        ],
        services=world.services,
    )


def billed(path: str, handler: type[ApiHandler], **members: Any) -> Endpoint:
    """The row of an endpoint that is billed and limited like a chat endpoint."""
    members = {"family": families.CHAT, "limited": True, "sold_by": "tokens", **members}
    return Endpoint(path, path, methods_of(handler), handler, body="json", **members)


# Outside the limits.
FREE_ROW = Endpoint("/v1/free", "/v1/free", ("GET", "DELETE"), FreeHandler, touches_key=False)


class NamedHandler(ApiHandler):
    async def on_get(self, name: str) -> None:
        self.write(dumps({"name": name}))
