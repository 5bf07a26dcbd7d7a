"""The upstreams of the simulation: what channels answer, by their mood, and what they really made.

A mood lasts for a while; a healthy channel fails now and then, a failing one mostly.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol
from urllib.parse import urlsplit

from channels.errors import UpstreamCut, UpstreamError, UpstreamLost, UpstreamUnreachable
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from tests.support.calls import image_response
from tests.unit.calls.sse import DONE, delta, error_body, usage_event, usage_of, whole
from tests.unit.calls.world import FOR_EVER, FakeResponse, Head, Step

MOODS = ("healthy", "failing", "hanging", "cutting", "flapping")
FILM_SECONDS = 5
IMAGES_MAX = 3
WORD = "word "
PACES = (50, 20, 4)  # events a second
# So many calls cost far more than they held: their prompt is so many times as long. Where there are
# many of them, leases are called back all the time.
DEAR, DEAR_FACTOR = (0.1, 0.1, 0.005), 2000


class Attempted(Protocol):
    """A call, as its attempts are counted."""

    def asks(self, channel_id: str) -> None:
        """It sends a request to a channel."""

    def accepted(self, reply: Response) -> None:
        """A channel takes it: the head of a response is here that says so."""


CALL: contextvars.ContextVar[Attempted | None] = contextvars.ContextVar("call", default=None)


@dataclass
class Response:
    """What one request is answered: steps, and what the upstream has really made.

    `use` are tokens of input, cached tokens among them and tokens of output, or a number of images.
    It is reported in the piece `stated_in`; None where it is not reported at all.
    """

    steps: list[Step]
    use: tuple[int, ...] = ()
    stated_in: bytes | None = None
    characters: int = 0
    response: FakeResponse | None = None

    @property
    def reported(self) -> tuple[int, ...] | None:
        """The use, once the gateway has read the piece that states it."""
        if self.response is None or self.stated_in is None:
            return None
        is_read = self.stated_in in self.steps and self.stated_in not in self.response.left
        return self.use if is_read else None


@dataclass
class Film:
    """A film that an upstream makes."""

    upstream_id: str
    ready_at: float
    end: str
    seconds: int


@dataclass
class Upstreams:
    """All channels' upstreams."""

    chance: Random
    dear: float = 0.0
    moods: dict[str, str] = field(default_factory=dict)
    films: dict[str, Film] = field(default_factory=dict)
    # How often each submission, by its idempotency key, has begun a film.
    begun: dict[str, int] = field(default_factory=dict)

    def heal(self) -> None:
        """Everything answers, at once and in full."""
        for channel in self.moods:
            self.moods[channel] = "well"

    def mood(self, channel: str) -> str:
        """The mood for one request."""
        mood = self.moods[channel]
        if mood == "flapping":
            return self.chance.choice(("healthy", "failing", "hanging", "cutting"))
        if mood == "healthy" and self.chance.random() < 0.1:
            return self.chance.choice(("failing", "hanging", "cutting"))
        return mood

    def script(self, channel: str, request: UpstreamRequest) -> Response:
        """What one request is answered."""
        url = urlsplit(request.url)
        mood = self.mood(channel)
        if url.path.endswith("/images/generations"):
            return self._images(mood, json.loads(bytes(request.body))["n"])
        if "/videos/" not in url.path:
            return self._chat(mood, is_stream=json.loads(bytes(request.body)).get("stream", False))
        if request.method == "POST":
            headers = {name.lower(): value for name, value in request.headers}
            return Response(self._submitted(mood, headers["idempotency-key"]))
        if request.method == "DELETE":
            return Response([Head(404), error_body("it cannot be stopped")])
        return Response(self._polled(mood, url.path.rpartition("/")[2]))

    def _chat(self, mood: str, *, is_stream: bool) -> Response:
        chance = self.chance
        if mood == "failing":
            return Response(self._failure())
        if mood == "hanging" and chance.random() < 0.5:
            return Response([FOR_EVER, Head()])
        prompt, completion = chance.randint(1, 50), chance.randint(1, 60)
        if chance.random() < self.dear:
            prompt *= DEAR_FACTOR
        cached = chance.choice((0, prompt // 2))
        usage = usage_of(prompt, completion, cached) if chance.random() < 0.9 else None
        stated_in: bytes | None = None
        steps: list[Step] = [chance.expovariate(5), Head()]
        if is_stream:
            pace = chance.choice(PACES)
            for _ in range(completion):
                steps += [chance.expovariate(pace), delta(WORD)]
            steps.append(delta(finish="stop"))
            if usage is not None:
                stated_in = usage_event(prompt, completion, cached)
                steps.append(stated_in)
            steps.append(DONE)
        else:
            body = whole(WORD * completion, usage=usage)
            middle = chance.randrange(len(body))
            steps += [body[:middle], chance.expovariate(5), body[middle:]]
            stated_in = None if usage is None else body[middle:]
        self._ended(mood, steps)
        use = (prompt, cached, completion)
        return Response(steps, use, stated_in, len(WORD) * completion)

    def _ended(self, mood: str, steps: list[Step]) -> None:
        """Leave the steps up to where the mood lets them come."""
        if mood in ("hanging", "cutting"):
            end = self.chance.randrange(2, len(steps))
            steps[end:] = [FOR_EVER if mood == "hanging" else UpstreamCut("cut")]

    def _images(self, mood: str, wanted: int) -> Response:
        chance = self.chance
        if mood == "failing":
            return Response(self._failure())
        if mood == "hanging" and chance.random() < 0.5:
            return Response([FOR_EVER, Head()])
        made = chance.randint(1, wanted)
        body = image_response(made)
        middle = chance.randrange(len(body))
        steps: list[Step] = [chance.expovariate(1), Head()]
        steps += [body[:middle], chance.expovariate(5), body[middle:]]
        self._ended(mood, steps)
        return Response(steps, (made,), body[middle:])

    def _failure(self) -> list[Step]:
        chance = self.chance
        kind = chance.randrange(5)
        if kind == 0:
            return [UpstreamUnreachable("refused")]
        if kind == 1:
            return [chance.expovariate(5), UpstreamLost("lost")]
        if kind == 2:
            return [Head(), b"<html>no JSON</html>"]
        status = chance.choice((400, 401, 429, 500, 503, 529))
        return [chance.expovariate(5), Head(status), error_body("sorry")]

    def _submitted(self, mood: str, key: str) -> list[Step]:
        chance = self.chance
        if mood == "failing":
            return (
                [UpstreamUnreachable("refused")] if chance.random() < 0.5 else self._server_error()
            )
        film = self.films.get(key)
        if film is None:
            self.begun[key] = self.begun.get(key, 0) + 1
            film = self.films[key] = Film(
                upstream_id=f"film-{len(self.films)}",
                ready_at=asyncio.get_running_loop().time() + chance.uniform(1, 30),
                end=chance.choice(("succeeded",) * 4 + ("failed",)),
                seconds=chance.randint(1, FILM_SECONDS),
            )
        if mood == "hanging":
            return [FOR_EVER, Head()]
        if mood == "cutting":
            return [chance.choice([UpstreamLost("lost"), UpstreamCut("cut")])]
        return [chance.expovariate(5), Head(), json.dumps({"id": film.upstream_id}).encode()]

    def _server_error(self) -> list[Step]:
        return [Head(self.chance.choice((500, 503))), error_body("sorry")]

    def _polled(self, mood: str, upstream_id: str) -> list[Step]:
        if mood == "hanging":
            return [FOR_EVER, Head()]
        if mood == "cutting":
            return [UpstreamCut("cut")]
        if mood == "failing":
            return self._server_error()
        film = next(f for f in self.films.values() if f.upstream_id == upstream_id)
        value: dict[str, Any] = {"id": upstream_id, "status": "running"}
        if asyncio.get_running_loop().time() >= film.ready_at:
            value = {"id": upstream_id, "status": film.end, "duration": film.seconds}
            if film.end == "succeeded":
                value["video_url"] = f"https://films.example/{upstream_id}.mp4"
            else:
                value["error"] = {"code": "blocked", "message": "It was blocked."}
        return [self.chance.expovariate(10), Head(), json.dumps(value).encode()]


class SimulatedHttp(UpstreamClient):
    """The connections of one process."""

    def __init__(self, upstreams: Upstreams) -> None:
        self._upstreams = upstreams
        self._responses: list[FakeResponse] = []
        self.is_cut = False

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        if self.is_cut:
            raise UpstreamUnreachable("the process is dead")
        channel = (urlsplit(request.url).hostname or "").removesuffix(".example")
        # Cancelling a task that was settled by others is no try.
        call = None if request.method == "DELETE" else CALL.get()
        if call is not None:
            call.asks(channel)
        reply = self._upstreams.script(channel, request)
        steps = reply.steps
        if request.sender is not None:
            request.sender.is_sent = True
        while not isinstance(steps[0], Head):
            await _wait(steps.pop(0))
        head = steps.pop(0)
        assert isinstance(head, Head)
        reply.response = response = FakeResponse(head, steps)
        if call is not None and head.status == 200:
            call.accepted(reply)
        self._responses.append(response)
        return response

    def leftovers(self) -> list[str]:
        """Responses that nobody has closed."""
        self._responses = [one for one in self._responses if not one.is_closed]
        return [f"open response of {one.status}" for one in self._responses]


async def _wait(step: Step) -> None:
    if isinstance(step, UpstreamError):
        raise step
    if step == FOR_EVER:
        await asyncio.Event().wait()
    assert isinstance(step, float)
    await asyncio.sleep(step)
