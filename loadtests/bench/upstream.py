"""The light upstream: python -m loadtests.bench.upstream ADDRESS; prints `ready listen=URL`.

Canned bytes, made once, one write for each event, and one wheel of time for all streams that are
paced: what it costs must be little beside what is measured behind it. A model is named after what
it does: `bench-40x20` streams 40 events, one every 20 ms, `bench-40x0` 40 events back to back;
asked without `stream` both answer at once. A poll of a job is told that it runs. The simulator
(`loadtests/simulator`) is the upstream for everything that is about being right.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import random
import re
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import httptools
import uvloop

PASSTHROUGH, MESSAGES = "native", "translated"  # channels, and what a model is called after
CHANNELS = {PASSTHROUGH: "chat", MESSAGES: "messages"}
SYSTEM = "You are a helpful assistant."
QUESTION = """Describe how a careful gateway counts what passes through it, token by token, and \
never loses one on the way."""
TEXT = "A careful gateway counts what passes through it and keeps nothing that is not its own."
FIRST_EVENTS = 7  # the fewest that a stream of either protocol is made of

MODEL = re.compile(rb'"model"\s*:\s*"[^"]*?bench-(\d+)x(\d+)"')
STREAM = re.compile(rb'"stream"\s*:\s*true')
OK = b"HTTP/1.1 200 OK\r\nContent-Type: "
CHAT = {"id": "chatcmpl-bench", "created": 1_760_000_000, "model": "bench"}
CHAT_USAGE = {"prompt_tokens": 42, "completion_tokens": 40, "total_tokens": 82}
MESSAGE = {"id": "msg_bench", "type": "message", "role": "assistant", "model": "bench"}
MESSAGE_USAGE = {"input_tokens": 42, "output_tokens": 40}


class Response(NamedTuple):
    """Pieces to write one by one; `pause_ms` between them, 0 for as fast as they are taken."""

    pieces: tuple[bytes, ...]
    pause_ms: int


def model_name(events: int, pause_ms: int) -> str:
    """The model that streams so many events, so far apart."""
    return f"bench-{events}x{pause_ms}"


def models(shapes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """For a gateway: a native model for each number of events and pause, and a translated one."""
    names = [model_name(*shape) for shape in shapes]
    native = [(name, PASSTHROUGH, name) for name in names]
    made = [*native, *((f"{MESSAGES}-{name}", MESSAGES, name) for name in names)]
    return [{"id": one, "channels": [{"id": channel, "as": to}]} for one, channel, to in made]


def chat_body(model: str, *, is_stream: bool = False, image_bytes: int = 0) -> bytes:
    """A body of chat-completions, with a picture of so many bytes inside."""
    request: object = QUESTION
    if image_bytes:
        picture = base64.b64encode(random.Random(7).randbytes(image_bytes)).decode()
        url = {"url": f"data:image/png;base64,{picture}"}
        request = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": url}]
    roles = {"system": SYSTEM, "user": request}
    messages = [{"role": role, "content": content} for role, content in roles.items()]
    stream = {"stream": True} if is_stream else {}
    body = {"model": model, **stream, "messages": messages, "temperature": 0.7, "max_tokens": 256}
    return json.dumps(body, separators=(",", ":")).encode()


def requests(
    host: str, keys: Sequence[str], body: bytes, headers: Mapping[str, str] | None = None
) -> tuple[bytes, ...]:
    """The bytes of the same call by each of the keys."""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json"
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    length = f"{more}Content-Length: {len(body)}\r\n\r\n"
    heads = (f"{head}\r\nAuthorization: Bearer {key}\r\n{length}" for key in keys)
    return tuple(one.encode() + body for one in heads)


def response_to(path: bytes, body: bytes) -> Response | None:
    """What is answered to a request; None when there is nothing of that name."""
    if path.startswith(POLLS):
        return POLLED
    found, is_messages = MODEL.search(body), path.endswith(b"/messages")
    if found is None:
        return None
    if not STREAM.search(body):
        return _plain(is_messages)
    return _stream(is_messages, int(found[1]), int(found[2]))


def _whole(body: bytes) -> Response:
    return Response(
        (OK + b"application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body),), 0
    )


POLLS = b"/v1/videos/generations/"
POLLED = _whole(b'{"status":"running","progress":50}')


@lru_cache
def _plain(is_messages: bool) -> Response:
    output = {
        "index": 0,
        "message": {"role": "assistant", "content": TEXT},
        "finish_reason": "stop",
    }
    chat = {**CHAT, "object": "chat.completion", "choices": [output], "usage": CHAT_USAGE}
    return _whole(json.dumps(_message(TEXT) if is_messages else chat).encode())


@lru_cache
def _stream(is_messages: bool, events: int, pause_ms: int) -> Response:
    made = _message_events(events) if is_messages else _chat_events(events)
    frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in made]
    frames[0] = OK + b"text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + frames[0]
    frames[-1] += b"0\r\n\r\n"
    return Response(tuple(frames), pause_ms)


def _chat_events(events: int) -> list[bytes]:
    def event(*choices: dict[str, Any], **usage: Any) -> bytes:
        return _data(**CHAT, object="chat.completion.chunk", choices=choices, **usage)

    def stated(finish_reason: str | None = None, **delta: str) -> bytes:
        return event({"index": 0, "delta": delta, "finish_reason": finish_reason})

    words = (stated(content=f"word {number} ") for number in range(events - 3))
    last = event(usage=CHAT_USAGE) + b"data: [DONE]\n\n"
    return [stated(role="assistant", content=""), *words, stated("stop"), last]


def _message(*texts: str) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    stop = {"stop_reason": "end_turn" if texts else None, "stop_sequence": None}
    return {**MESSAGE, "content": content, **stop, "usage": MESSAGE_USAGE}


def _message_events(events: int) -> list[bytes]:
    def event(name: str, **members: Any) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data(type=name, **members)

    deltas = ({"type": "text_delta", "text": f"word {number} "} for number in range(events - 5))
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        event("message_start", message=_message()),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=0, delta=delta) for delta in deltas),
        event("content_block_stop", index=0),
        event("message_delta", delta=stop, usage={"output_tokens": 40}),
        event("message_stop"),
    ]


def _data(**value: Any) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


BACKLOG = 8192
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
# Has no divisor in common with any usual pause, so that all parts of one are taken in turn.
_STRIDE = 7919


class Wheel:
    """Calls streams back at milliseconds they name, all that are due in one turn of one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._slots: dict[int, list[Connection]] = {}
        self._at = self._begun = 0
        self._is_turning = False

    def begin(self, stream: Connection) -> None:
        """Let a stream go on after a part of its pause, another one for each stream.

        Else streams that a server has begun in one turn of its loop would stay in step, and those
        they hold up fall in with them: no upstream's tokens come so.
        """
        self._begun += 1
        now = int(self._loop.time() * 1000)
        if not self._is_turning:
            self._is_turning, self._at = True, now + 1
            self._loop.call_later(0.001, self._turn)
        after_ms = 1 + self._begun * _STRIDE % stream.pause_ms
        self._slots.setdefault(max(now + after_ms, self._at), []).append(stream)

    def _turn(self) -> None:
        now, slots = int(self._loop.time() * 1000), self._slots
        while self._at <= now:
            for stream in slots.pop(self._at, ()):
                # Counted from when it was due: a late turn does not stretch the stream.
                if stream.put():
                    slots.setdefault(self._at + stream.pause_ms, []).append(stream)
            self._at += 1
        self._is_turning = bool(slots)
        if slots:
            self._loop.call_later(0.001, self._turn)


class Connection(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, wheel: Wheel) -> None:
        self._wheel, self._loop = wheel, asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._path, self._body = b"", list[bytes]()
        self._left: list[bytes] = []  # pieces of the answer, the next one last
        self.pause_ms = 0

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._left = []

    def on_url(self, path: bytes) -> None:
        self._path += path

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        response = response_to(self._path, b"".join(self._body))
        self._path, self._body = b"", []
        if response is None:
            self._transport.write(NOT_FOUND)
            return
        self._left, self.pause_ms = [*reversed(response.pieces)], response.pause_ms
        if self.put():
            self._wheel.begin(self) if self.pause_ms else self._loop.call_soon(self._hurry)

    def put(self) -> bool:
        """Write the next piece of the answer, if any is left. Returns whether there are more."""
        if self._left:
            self._transport.write(self._left.pop())
        return bool(self._left)

    def _hurry(self) -> None:
        """Write one event in each turn of the loop, as an upstream does that has them ready."""
        if self.put():
            self._loop.call_soon(self._hurry)


def serve(connections: Callable[[], Callable[[], asyncio.Protocol]]) -> None:
    """Listen on a free port of the command's address, print `ready listen=URL`, end on a signal.

    `connections` is called in the loop and makes what makes the protocol of a connection.
    """

    async def serving() -> None:
        loop, stopped = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopped.set)
        server = await loop.create_server(connections(), sys.argv[1], 0, backlog=BACKLOG)
        gc.collect()
        gc.freeze()
        host, port = server.sockets[0].getsockname()
        print(f"ready listen=http://{host}:{port}", file=sys.stderr, flush=True)
        await stopped.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serving())


def _connections() -> Callable[[], Connection]:
    gc.disable()  # a collection would be a gap in every stream; what is left lasts for one run
    wheel = Wheel(asyncio.get_running_loop())
    return lambda: Connection(wheel)


if __name__ == "__main__":
    serve(_connections)
