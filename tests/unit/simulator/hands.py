"""A simulator whose clock is turned by hand, and what tests of its tasks ask it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from loadtests.rig.response import Response
from loadtests.simulator.server import Simulator
from tests.unit.simulator.client import KEY, call

NOW = 1_800_000_000.0
TASK_SECONDS = 100.0


class Hands:
    """A running simulator at an instant of the test's choosing."""

    def __init__(self) -> None:
        self.now = NOW
        self.simulator = Simulator(clock=lambda: self.now, task_seconds=TASK_SECONDS)

    async def ask(
        self, method: str, path: str, value: object = None, *, key: str = KEY, **headers: str
    ) -> Response:
        return await call(
            self.simulator, method, path, value, authorization=f"Bearer {key}", **headers
        )

    async def submit(self, path: str, value: dict[str, Any], **sim: Any) -> Any:
        """The answer to a submit that is taken, with a directive of these members."""
        reply = await self.ask("POST", path, {**value, "sim": sim} if sim else value)
        assert reply.status == 200, reply.json
        return reply.json

    async def fetch(self, url: str, **headers: str) -> Response:
        return await call(self.simulator, "GET", target_of(url), **headers)


def target_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


@asynccontextmanager
async def hands() -> AsyncIterator[Hands]:
    found = Hands()
    async with found.simulator:
        yield found
