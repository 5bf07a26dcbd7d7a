"""Endpoints to be tested with: one that echoes, one that works until told, one that streams."""

import asyncio
from collections.abc import Callable
from typing import Any

from channels.families import ErrorShape
from gw.api.application import GatewayApplication
from gw.api.handler import ApiHandler
from gw.error_bodies import dumps
from gw.errors import NOT_FOUND, GatewayError
from tests.unit.api.fakes import World

HUGE_BYTES = 30_000_000


class EchoHandler(ApiHandler):
    """Billed and limited like a chat endpoint; answers with what it was sent."""

    route = "/v1/echo"
    protocol = "chat"
    billed = True
    limited = True

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
    """A free endpoint with two methods, outside the limits."""

    route = "/v1/free"
    touches_key = False

    async def on_get(self) -> None:
        self.write(b"{}")

    async def on_delete(self) -> None:
        self.set_status(204)


class MessagesHandler(EchoHandler):
    shape = ErrorShape.MESSAGES
    agent_keys_allowed = True


class GeminiHandler(EchoHandler):
    shape = ErrorShape.GEMINI


class Script:
    """What a working endpoint does, and what became of it."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.may_end = asyncio.Event()  # held back by a test to see who waits for the end
        self.may_end.set()
        self.events: list[str] = []
        self.raises: Callable[[], BaseException] | None = None
        self.after: Callable[[Any], None] | None = None  # is given the request, when it is answered


class WorkHandler(ApiHandler):
    """Works until told to go on; ends well, with a last step that a cancellation must not hit."""

    route = "/v1/work"
    protocol = "chat"
    billed = True
    limited = True

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

    route = "/v1/stream"

    async def work(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.write(b"data: 1\n\n")
        await self.flush()
        await super().work()


class HugeHandler(WorkHandler):
    """One answer, larger than what the sockets hold."""

    route = "/v1/huge"

    async def work(self) -> None:
        self.finish(b"x" * HUGE_BYTES)


class JoinedHandler(WorkHandler):
    """One response of so many bytes, which may be written in the next turn."""

    route = "/v1/joined"

    async def work(self) -> None:
        self.request.before_write = lambda: self.script.events.append("written")
        self.finish(b"x" * int(self.request.body))
        self.script.events.append("finished")
        if self.script.after is not None:
            self.script.after(self.request)


class SizedHandler(WorkHandler):
    """A response whose head says how long it is, and some of it, before the work."""

    route = "/v1/sized"

    async def work(self) -> None:
        self.set_header("Content-Length", "17")
        self.write(b"x" * 2)
        await self.flush()
        await super().work()


class TorrentHandler(WorkHandler):
    """Writes for as long as the client reads."""

    route = "/v1/torrent"

    async def work(self) -> None:
        while True:
            self.write(b"x" * 65536)
            await self.flush()


def make_app(world: World, script: Script | None = None) -> GatewayApplication:
    scripted = {"script": script}
    return GatewayApplication(
        [
            (r"/v1/echo", EchoHandler),
            (r"/v1/polled", PolledHandler),
            (r"/v1/free", FreeHandler),
            (r"/v1/messages", MessagesHandler),
            (r"/v1beta/native", GeminiHandler),
            (r"/v1/work", WorkHandler, scripted),
            (r"/v1/stream", StreamHandler, scripted),
            (r"/v1/huge", HugeHandler, scripted),
            (r"/v1/joined", JoinedHandler, scripted),
            (r"/v1/sized", SizedHandler, scripted),
            (r"/v1/torrent", TorrentHandler, scripted),
            (r"/v1/named/([^/]+)", NamedHandler),
        ],
        services=world.services,
    )


class NamedHandler(ApiHandler):
    route = "/v1/named"
    auth = "none"

    async def on_get(self, name: str) -> None:
        self.write(dumps({"name": name}))
