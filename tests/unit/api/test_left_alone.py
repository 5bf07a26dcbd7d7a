"""A call whose client has left keeps what it holds of account and process until it ends."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from gw.api.base import ApiHandler, GatewayApplication
from gw.api.chat import ModelCall
from gw.api.submit import DetachableWriter, detached
from gw.calls.media import DetachedTasks
from gw.errors import NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.application import RequestsInFlight
from tests.support.aio import eventually
from tests.support.rows import cases
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.http.wire import request, served

BODY = b" " * 200_000


class PatientHandler(ApiHandler):
    """Its work goes on without its client, and ends when it may, well or not."""

    route = "patient"
    protocol = "videos"
    limited = billed = True
    may_end: ClassVar[asyncio.Event]
    error: ClassVar[Exception | None]
    left: ClassVar[RequestsInFlight]  # work whose client has left

    async def on_post(self) -> None:
        work = DetachedTasks(self.left)

        async def use_case(writer: DetachableWriter) -> None:
            await work.run(self._work(), writer)
            writer.begin("application/json", {})
            writer.send(b"{}")

        await detached(ModelCall(self), None, use_case)

    async def _work(self) -> None:
        await type(self).may_end.wait()
        if self.error is not None:
            raise self.error


@cases("error", None, GatewayError(NO_CHANNEL_AVAILABLE, "Not now."))
@cases("leaves", True, False)
async def test_admission_and_body_are_held_until_the_call_has_ended(
    error: Exception | None, leaves: bool
) -> None:
    world = World()
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    PatientHandler.may_end, PatientHandler.error = asyncio.Event(), error
    PatientHandler.left = RequestsInFlight()
    application = GatewayApplication([("/patient", PatientHandler)], services=world.services)
    bodies, limits = world.services.bodies, world.limits

    def holds() -> tuple[bool, int]:
        return bodies.held_bytes >= len(BODY), limits.in_flight("acct_1")

    async with served(application) as address, address.client() as client:
        head = request("POST", "/patient", f"Content-Length: {len(BODY)}")
        await client.send(head.replace("\n", "\r\n").encode() + BODY)
        await eventually(lambda: holds() == (True, 1))
        if leaves:
            client.vanish()
            await eventually(lambda: len(PatientHandler.left) == 1)
        assert holds() == (True, 1)
        PatientHandler.may_end.set()
        if not leaves:
            assert (await client.answer()).status == (200 if error is None else 503)
        await eventually(lambda: (bodies.held_bytes, limits.in_flight("acct_1")) == (0, 0))
        assert len(world.refusals) == (error is not None)
