"""Upstreams as scripts: what each channel answers, in which pieces, and where it breaks.

A script is a list of steps for one request. Before `Head` come the steps up to the answer's head,
after it those of its body: bytes are sent, an Event is waited for, an int is so many turns of the
loop (or FOR_EVER), a float so many seconds, an exception is raised. A body ends where its steps do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from channels.errors import UpstreamCut, UpstreamMalformed
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire


@dataclass(frozen=True)
class Head:
    """Status and headers of the answer (names in lower case)."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


FOR_EVER = -1
Step = Head | bytes | int | float | asyncio.Event | Exception
Script = Sequence[Step]


def answer(*steps: Step, status: int = 200, **headers: str) -> Script:
    """An answer: its head at once, then these steps."""
    return (Head(status, {k.replace("_", "-"): v for k, v in headers.items()}), *steps)


async def _take(step: Step) -> bytes:
    """Do a step; what it sends, if anything."""
    if isinstance(step, bytes):
        return step
    if isinstance(step, Exception):
        raise step
    if isinstance(step, asyncio.Event):
        await step.wait()
    elif isinstance(step, float):
        await asyncio.sleep(step)
    else:
        assert isinstance(step, int)
        if step == FOR_EVER:
            await asyncio.Event().wait()
        for _ in range(step):
            await asyncio.sleep(0)
    return b""


class FakeResponse(UpstreamResponse):
    """Plays the steps after the head; knows whether it was closed, and how far it had come."""

    def __init__(self, head: Head, steps: Script) -> None:
        self._head = head
        self._steps = list(steps)
        self._closing = asyncio.Event()
        self.pieces_taken = 0
        self._has_ended = False

    @property
    def status(self) -> int:
        return self._head.status

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    @property
    def left(self) -> Script:
        """The steps that have not been taken."""
        return self._steps

    def header(self, name: str) -> str | None:
        return self._head.headers.get(name.lower())

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._steps:
            if self.is_closed:
                raise UpstreamCut("closed by us")
            step = self._steps[0]
            try:
                sent = await _take(step)
            except Exception:
                self._steps.clear()
                self._closing.set()
                raise
            self._steps.pop(0)
            if sent:
                self.pieces_taken += 1
                return sent
        self._has_ended = True
        raise StopAsyncIteration

    async def read(self, limit: int) -> bytes:
        body = b"".join([piece async for piece in self])
        if len(body) > limit:
            raise UpstreamMalformed("too large")
        return body

    def close(self) -> None:
        self._closing.set()


class FakeWire(Wire):
    """Scripts by channel, one for each request to it; the last one is played again."""

    def __init__(self, scripts: Mapping[str, Sequence[Script]]) -> None:
        self._scripts = {channel: list(given) for channel, given in scripts.items()}
        self.requests: list[UpstreamRequest] = []
        self.responses: list[FakeResponse] = []
        self.opening = 0

    @property
    def tried(self) -> list[str]:
        """Channels in the order they were asked."""
        hosts = [urlsplit(request.url).hostname or "" for request in self.requests]
        return [host.removesuffix(".example") for host in hosts]

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        self.requests.append(request)
        scripts = self._scripts[self.tried[-1]]
        steps = list(scripts.pop(0) if len(scripts) > 1 else scripts[0])
        self.opening += 1
        try:
            while not isinstance(steps[0], Head):
                await _take(steps.pop(0))
        finally:
            self.opening -= 1
        head = steps.pop(0)
        assert isinstance(head, Head)
        response = FakeResponse(head, steps)
        self.responses.append(response)
        return response

    def leftovers(self) -> list[str]:
        """Responses that nobody has closed, requests that nobody has given up."""
        left = [f"open response of {response.status}" for response in self.responses]
        left = [
            text
            for text, response in zip(left, self.responses, strict=True)
            if not response.is_closed
        ]
        return left + ["a request on its way"] * self.opening
