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
import select
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Self

# Far above what any call here takes, and any time-out of the gateway: such a wait is a hang.
HANGS_SECONDS = 60.0

# How it ended: `nothing` came; the response was `cut`; it is `whole`; the client `left`; it `hung`.
End = Literal["nothing", "cut", "whole", "left", "hung"]


@dataclass
class Seen:
    """What the client has seen by now; names of headers in lower case, status 0 without a head."""

    end: End = "nothing"
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)

    @property
    def trace(self) -> str:
        """The id of the call, empty where no head has come."""
        return self.headers.get("x-gateway-trace", "")


class Connection:
    """One connection to the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._is_kept = True

    @classmethod
    async def open(cls, port: int, *, receive_bytes: int | None = None, reads: bool = True) -> Self:
        """Connect, with so small a buffer if wanted, to read nothing if wanted. Raises OSError."""
        sock = socket.socket()
        try:
            sock.setblocking(False)
            if receive_bytes is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
            reader, writer = await asyncio.open_connection(sock=sock)
            if not reads:
                writer.transport.pause_reading()  # type: ignore[attr-defined]
        except BaseException:
            sock.close()
            raise
        return cls(reader, writer)

    @property
    def is_open(self) -> bool:
        """May another request be sent, as far as the client can know?"""
        if not self._is_kept or self._reader.at_eof() or self._reader.exception():
            return False
        # Its end may have come and not been read yet; libraries look, too.
        ended = select.poll()
        ended.register(self._writer.get_extra_info("socket"), select.POLLIN | select.POLLRDHUP)
        return not ended.poll(0)

    def send(self, data: bytes) -> None:
        """Send bytes, whatever they are."""
        self._writer.write(data)

    async def ask(self, request: bytes, seen: Seen) -> None:
        """Send a request and note what comes back. Raises nothing that the server can cause."""
        try:
            async with asyncio.timeout(HANGS_SECONDS):
                self._writer.write(request)
                await self._read(seen)
                seen.end = "whole"
        except TimeoutError:
            seen.end = "hung"
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            seen.end = "cut" if seen.status else "nothing"
        if seen.end != "whole" or seen.headers.get("connection", "").lower() == "close":
            self.leave()

    def leave(self) -> None:
        """Close it, whatever it was doing."""
        self._is_kept = False
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close it as one does who is done."""
        self._is_kept = False
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _read(self, seen: Seen) -> None:
        head = await self._reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        seen.headers = {name.lower(): value.strip() for name, _, value in pairs}
        seen.status = int(first.split(" ", 2)[1])
        if seen.headers.get("transfer-encoding", "").lower() == "chunked":
            await self._read_chunks(seen)
        else:
            await self._read_bytes(int(seen.headers.get("content-length", "0")), seen)

    async def _read_chunks(self, seen: Seen) -> None:
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            await self._read_bytes(size, seen)
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")

    async def _read_bytes(self, left: int, seen: Seen) -> None:
        while left:
            data = await self._reader.read(min(left, 65536))
            if not data:
                raise EOFError
            seen.body += data
            left -= len(data)


# Prices of the models below, in nano-USD: of a token, a picture, a second of film.
INPUT, OUTPUT = 1_000, 10_000
PICTURE = 40_000_000
SECOND = 10_000_000
FILM_SECONDS = 4

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
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
        lines = [f"POST {self.path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}"]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        if self.idempotency_key:
            lines.append(f"Idempotency-Key: {self.idempotency_key}")
        return "\r\n".join([*lines, "\r\n"]).encode() + body


@dataclass
class Call:
    """One request of a client, and what it saw of it. Moments are monotonic seconds.

    Requests of the same `number` mean the same picture or film.
    """

    number: int
    kind: KindName
    sent: Sent
    began_at: float
    seen: Seen = field(default_factory=Seen)
    is_over: bool = False
    ended_at: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """What became of it."""
        if self.seen.end == "nothing":
            return "unanswered"
        if self.seen.end != "whole":
            return self.seen.end
        if self.seen.status != 200:
            return "refused"
        is_finished = _ENDS.get(self.kind, b"") in self.seen.body
        return "answered" if is_finished else "interrupted"

    @property
    def is_keyed(self) -> bool:
        """Has it an idempotency key?"""
        return bool(self.sent.idempotency_key)

    @property
    def is_replay(self) -> bool:
        """Is it the response that an earlier request with its key was given?"""
        return "idempotency-replayed" in self.seen.headers

    @property
    def is_turned_away(self) -> bool:
        """Was it refused by a process that ends, before its key was read?"""
        return self.seen.status == 503 and self.seen.headers.get("connection") == "close"

    @property
    def error(self) -> dict[str, Any] | None:
        """The error object of a refusal; None when there is none that a client could read."""
        try:
            body = json.loads(self.seen.body)
            error: Any = body["error"]
        except (ValueError, KeyError, TypeError):
            return None
        return error if isinstance(error, dict) and error.get("message") else None

    def unclean(self) -> str | None:
        """What is wrong with a refusal, if anything."""
        status = self.seen.status
        if status not in REFUSALS:
            return f"status {status}: {bytes(self.seen.body[:200])!r}"
        if self.error is None:
            return f"status {status} without an error: {bytes(self.seen.body[:200])!r}"
        if status == 503 and not self.seen.headers.get("retry-after"):
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
