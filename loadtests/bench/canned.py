"""The answers of the light upstream, made once: bytes on the wire for each model name it knows.

A model is named after what it does: `bench-40x20` streams 40 events, one every 20 ms, `bench-40x0`
40 events back to back; asked without `stream` both answer at once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

MODEL = re.compile(rb'"model"\s*:\s*"[^"]*?bench-(\d+)x(\d+)"')
STREAM = re.compile(rb'"stream"\s*:\s*true')
PREFIX = "bench-"

TEXT = "A careful gateway counts what passes through it and keeps nothing that is not its own."
INPUT_TOKENS, OUTPUT_TOKENS = 42, 40
FIRST_EVENTS = 7  # the fewest that a stream of either protocol is made of


@dataclass(frozen=True)
class Answer:
    """Pieces to write, one at a time; `pause_ms` between them, 0 for as fast as they are taken."""

    pieces: tuple[bytes, ...]
    pause_ms: int


def model_name(events: int, pause_ms: int) -> str:
    """The model that streams so many events, so far apart."""
    return f"{PREFIX}{events}x{pause_ms}"


def answer_to(path: bytes, body: bytes) -> Answer | None:
    """What is answered to a request; None when there is nothing of that name."""
    found = MODEL.search(body)
    if found is None:
        return None
    is_messages = path.endswith(b"/messages")
    if not STREAM.search(body):
        return Answer((_plain(is_messages),), 0)
    return _stream(is_messages, int(found[1]), int(found[2]))


@lru_cache
def _plain(is_messages: bool) -> bytes:
    body = json.dumps(_message(TEXT) if is_messages else _completion(TEXT)).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


@lru_cache
def _stream(is_messages: bool, events: int, pause_ms: int) -> Answer:
    made = _message_events(events) if is_messages else _chat_events(events)
    frames = [b"%x\r\n%b\r\n" % (len(event), event) for event in made]
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    frames[0] = head + frames[0]
    frames[-1] += b"0\r\n\r\n"
    return Answer(tuple(frames), pause_ms)


def _completion(text: str) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    return {**_chat("chat.completion"), "choices": [choice], "usage": _chat_usage()}


def _chat(kind: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-bench",
        "object": kind,
        "created": 1_760_000_000,
        "model": "bench",
    }


def _chat_usage() -> dict[str, int]:
    return {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "total_tokens": INPUT_TOKENS + OUTPUT_TOKENS,
    }


def _chat_events(events: int) -> list[bytes]:
    chunk = _chat("chat.completion.chunk")

    def event(delta: Mapping[str, str], finish_reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        return _data({**chunk, "choices": [choice]})

    made = [event({"role": "assistant", "content": ""})]
    made += [event({"content": f"word {number} "}) for number in range(events - 3)]
    made.append(event({}, "stop"))
    usage = _data({**chunk, "choices": [], "usage": _chat_usage()})
    return [*made, usage + b"data: [DONE]\n\n"]


def _message(text: str | None) -> dict[str, Any]:
    return {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [] if text is None else [{"type": "text", "text": text}],
        "stop_reason": None if text is None else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": INPUT_TOKENS, "output_tokens": OUTPUT_TOKENS},
    }


def _message_events(events: int) -> list[bytes]:
    start = {"index": 0, "content_block": {"type": "text", "text": ""}}
    made = [_named("message_start", {"message": _message(None)})]
    made.append(_named("content_block_start", start))
    for number in range(events - 5):
        delta = {"type": "text_delta", "text": f"word {number} "}
        made.append(_named("content_block_delta", {"index": 0, "delta": delta}))
    made.append(_named("content_block_stop", {"index": 0}))
    stop = {"stop_reason": "end_turn", "stop_sequence": None}
    last = {"delta": stop, "usage": {"output_tokens": OUTPUT_TOKENS}}
    made.append(_named("message_delta", last))
    return [*made, _named("message_stop", {})]


def _data(value: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _named(name: str, value: Mapping[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\n" + _data({"type": name, **value})
