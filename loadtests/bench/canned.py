"""The answers of the light upstream, made once: bytes on the wire for each model name it knows.

A model is named after what it does: `bench-40x20` streams 40 events, one every 20 ms, `bench-40x0`
40 events back to back; asked without `stream` both answer at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

MODEL = re.compile(rb'"model"\s*:\s*"[^"]*?bench-(\d+)x(\d+)"')
STREAM = re.compile(rb'"stream"\s*:\s*true')
OK = b"HTTP/1.1 200 OK\r\nContent-Type: "

TEXT = "A careful gateway counts what passes through it and keeps nothing that is not its own."
INPUT_TOKENS, OUTPUT_TOKENS = 42, 40
FIRST_EVENTS = 7  # the fewest that a stream of either protocol is made of
CHAT = {"id": "chatcmpl-bench", "created": 1_760_000_000, "model": "bench"}
CHAT_USAGE = {
    "prompt_tokens": INPUT_TOKENS,
    "completion_tokens": OUTPUT_TOKENS,
    "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
}


class Answer(NamedTuple):
    """Pieces to write, one at a time; `pause_ms` between them, 0 for as fast as they are taken."""

    pieces: tuple[bytes, ...]
    pause_ms: int


def model_name(events: int, pause_ms: int) -> str:
    """The model that streams so many events, so far apart."""
    return f"bench-{events}x{pause_ms}"


def answer_to(path: bytes, body: bytes) -> Answer | None:
    """What is answered to a request; None when there is nothing of that name."""
    found = MODEL.search(body)
    if found is None:
        return None
    is_messages = path.endswith(b"/messages")
    if not STREAM.search(body):
        return _plain(is_messages)
    return _stream(is_messages, int(found[1]), int(found[2]))


@lru_cache
def _plain(is_messages: bool) -> Answer:
    said = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    chat = {**CHAT, "object": "chat.completion", "choices": [said], "usage": CHAT_USAGE}
    body = json.dumps(_message([TEXT]) if is_messages else chat).encode()
    head = OK + b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    return Answer((head + body,), 0)


@lru_cache
def _stream(is_messages: bool, events: int, pause_ms: int) -> Answer:
    made = _message_events(events) if is_messages else _chat_events(events)
    frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in made]
    frames[0] = OK + b"text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + frames[0]
    frames[-1] += b"0\r\n\r\n"
    return Answer(tuple(frames), pause_ms)


def _chat_events(events: int) -> list[bytes]:
    def event(*choices: Mapping[str, Any], **usage: Any) -> bytes:
        return _data({**CHAT, "object": "chat.completion.chunk", "choices": choices, **usage})

    def said(delta: Mapping[str, str], finish_reason: str | None = None) -> bytes:
        return event({"index": 0, "delta": delta, "finish_reason": finish_reason})

    first = said({"role": "assistant", "content": ""})
    words = (said({"content": f"word {number} "}) for number in range(events - 3))
    return [first, *words, said({}, "stop"), event(usage=CHAT_USAGE) + b"data: [DONE]\n\n"]


def _message(texts: list[str]) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [{"type": "text", "text": text} for text in texts],
        "stop_reason": "end_turn" if texts else None,
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


def _message_events(events: int) -> list[bytes]:
    def event(name: str, **members: Any) -> bytes:
        return b"event: " + name.encode() + b"\n" + _data({"type": name, **members})

    deltas = ({"type": "text_delta", "text": f"word {number} "} for number in range(events - 5))
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        event("message_start", message=_message([])),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(event("content_block_delta", index=0, delta=delta) for delta in deltas),
        event("content_block_stop", index=0),
        event("message_delta", delta=stop, usage={"output_tokens": OUTPUT_TOKENS}),
        event("message_stop"),
    ]


def _data(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
