"""The calls of the load: what is asked, what it costs when it is served, and what came of it.

A call's number is in its prompt, which the upstream remembers, and in its token maximum, which sets
what is held for it: so it is found in the ledger even where its client never saw an id. Work that
is sold by the piece or made later has an idempotency key instead, as a careful client's would. The
client reports exactly what it saw of one request: nothing, a part, a whole response. It tries
nothing again. A connection is kept where the server lets it, as most libraries do.
"""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from loadtests.rig.async_connection import AsyncConnection
from loadtests.rig.client import CHAT
from loadtests.rig.response import Response, request_bytes

# Far above what any call here takes, and any time-out of the gateway: such a wait is a hang.
HANGS_SECONDS = 60.0

# How it ended: `nothing` came; the response was `cut`; it is `whole`; the client `left`; it `hung`.
End = Literal["nothing", "cut", "whole", "left", "hung"]


async def exchange(connection: AsyncConnection, request: bytes, response: Response) -> End:
    """Send a request and note what comes back. Raises nothing that the server can cause."""
    end: End = "nothing"
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            connection.writer.write(request)
            await connection.response(response)
            end = "cut" if response.is_broken else "whole"
    except TimeoutError:
        end = "hung"
    except (OSError, ValueError):
        end = "cut" if response.status else "nothing"
    if end != "whole" or not connection.is_kept:
        connection.leave()
    return end


# Prices of the models below, in nano-USD: of a token, a picture, a second of film.
INPUT, OUTPUT = 1_000, 10_000
PICTURE = 40_000_000
SECOND = 10_000_000
FILM_SECONDS = 4

MESSAGES = "/v1/messages"
IMAGES, VIDEOS = "/v1/images/generations", "/v1/videos/generations"

# So much is held for each number, in nano-USD; what is held for the input is far less.
HELD_OF_NUMBER = 1_000_000
TOKENS_OF_NUMBER = HELD_OF_NUMBER // OUTPUT
EVENT_MS = 25
INPUT_TOKENS = 100

KindName = Literal["chat", "stream", "messages", "picture", "film"]
# What became of a call, as its client sees it. One that is `cut` ends without its last chunk:
# whatever cut it, a library takes it for no answer. One that is `interrupted` ends as if it were
# whole, but without its terminator, which no fault may bring about.
Outcome = Literal["answered", "refused", "interrupted", "cut", "unanswered", "left", "hung"]
# Of a hundred calls so many are of this kind.
SHARES: dict[KindName, int] = {"chat": 30, "stream": 40, "messages": 16, "picture": 7, "film": 7}
_ENDS: dict[KindName, bytes] = {"stream": b"data: [DONE]\n\n", "messages": b"message_stop"}
# Allowed refusals: come back, try another process, wait until the key is free.
REFUSALS = frozenset({408, 409, 429, 502, 503, 504, 529})


class Sent(NamedTuple):
    """A request ready to be sent, and its price in nano-USD."""

    path: str
    body: dict[str, Any]
    price_nano_usd: int
    idempotency_key: str = ""
    upstream_seconds: float = 0.0  # that the upstream takes for a conversation

    def encode(self, key: str) -> bytes:
        """The bytes of the request, with a client's key."""
        body = json.dumps(self.body, separators=(",", ":")).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        if self.idempotency_key:
            headers["Idempotency-Key"] = self.idempotency_key
        return request_bytes("POST", self.path, headers, body, host="gateway")


@dataclass
class Call:
    """One request of a client, and what it saw of it. Moments are monotonic seconds.

    Requests of the same `number` mean the same picture or film.
    """

    number: int
    kind: KindName
    sent: Sent
    began_at: float
    end: End = "nothing"
    response: Response = field(default_factory=Response)
    is_over: bool = False
    ended_at: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        if self.end == "nothing":
            return "unanswered"
        if self.end != "whole":
            return self.end
        if self.response.status != 200:
            return "refused"
        is_finished = _ENDS.get(self.kind, b"") in self.response.body
        return "answered" if is_finished else "interrupted"

    @property
    def is_behind_another(self) -> bool:
        """Whether it was refused for a request of the same idempotency key without an answer."""
        body = self.response.body
        return self.is_keyed and self.response.status == 409 and b"idempotency_in_flight" in body

    @property
    def is_keyed(self) -> bool:
        """Has it an idempotency key?"""
        return bool(self.sent.idempotency_key)

    @property
    def is_replay(self) -> bool:
        """Is it the response that an earlier request with its key was given?"""
        return "idempotency-replayed" in self.response.headers

    @property
    def is_turned_away(self) -> bool:
        """Was it refused by a process that ends, before its key was read?"""
        return self.response.status == 503 and self.response.headers.get("connection") == "close"

    @property
    def error(self) -> dict[str, Any] | None:
        """The error object of a refusal; None when there is none that a client could read."""
        try:
            body = json.loads(self.response.body)
            error: Any = body["error"]
        except (ValueError, KeyError, TypeError):
            return None
        return error if isinstance(error, dict) and error.get("message") else None

    def unclean(self) -> str | None:
        """What is wrong with a refusal, if anything."""
        status = self.response.status
        if status not in REFUSALS:
            return f"status {status}: {self.response.body[:200]!r}"
        if self.error is None:
            return f"status {status} without an error: {self.response.body[:200]!r}"
        if status == 503 and not self.response.headers.get("retry-after"):
            return "status 503 without Retry-After"
        return None


def choose(rng: random.Random) -> KindName:
    """The kind of the next call."""
    return rng.choices([*SHARES], [*SHARES.values()])[0]


def make(kind: KindName, number: int, rng: random.Random) -> Sent:
    """What is sent for a call of this kind."""
    if kind == "picture":
        body = {"model": "picture", "prompt": _prompt(number), "n": 1}
        return Sent(IMAGES, body, PICTURE, f"picture-{number}")
    if kind == "film":
        content = [{"type": "text", "text": _prompt(number)}]
        body = {"model": "film", "content": content, "duration": FILM_SECONDS}
        return Sent(VIDEOS, body, FILM_SECONDS * SECOND, f"film-{number}")
    events = rng.randint(4, 60)
    # A plain response takes as long as a stream of so many events.
    late = {"delay_headers_ms": events * EVENT_MS} if kind == "chat" else {}
    return conversation(kind, number, events=events, delay_event_ms=EVENT_MS, **late)


def conversation(kind: KindName, number: int, *, events: int = 1, **directive: Any) -> Sent:
    """A chat call whose upstream is given this directive, and states what it used."""
    output = 2 * events + 10  # more than an estimate of the same text comes to
    usage = {"input": INPUT_TOKENS, "output": output}
    requested = json.dumps({"events": events, "usage": usage, **directive}, separators=(",", ":"))
    message = {"role": "user", "content": f"{_prompt(number)} [[sim {requested}]]"}
    body = {
        "model": "sim-model",
        "max_tokens": TOKENS_OF_NUMBER * number,
        "stream": kind != "chat",
        "messages": [message],
    }
    price = INPUT_TOKENS * INPUT + output * OUTPUT
    seconds = events * float(directive.get("delay_event_ms", 0)) / 1000
    return Sent(MESSAGES if kind == "messages" else CHAT, body, price, upstream_seconds=seconds)


def _prompt(number: int) -> str:
    return f"call {number}."
