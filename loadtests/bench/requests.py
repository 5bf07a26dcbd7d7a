"""What is asked: models that the light upstream knows, bodies, and the bytes of a request."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence

from loadtests.bench.canned import model_name
from loadtests.bench.rig import Model

PATH = "/v1/chat/completions"
PASSTHROUGH, MESSAGES = "native", "translated"  # channels, and what a model is called after
CHANNELS = {PASSTHROUGH: "chat", MESSAGES: "messages"}
SYSTEM = "You are a helpful assistant."
QUESTION = (
    "Describe how a careful gateway counts what passes through it, token by token, and never "
    "loses one on the way."
)


def models(shapes: Sequence[tuple[int, int]]) -> list[Model]:
    """A native model for each number of events and pause, and one that has to be translated."""
    names = [model_name(*shape) for shape in shapes]
    passthrough = [Model(name, [PASSTHROUGH]) for name in names]
    return passthrough + [Model(f"{MESSAGES}-{name}", [MESSAGES], name) for name in names]


def chat_body(
    model: str, *, is_stream: bool = False, image_bytes: int = 0, max_tokens: int = 256
) -> bytes:
    """A body of chat-completions, with a picture of so many bytes inside."""
    asked: object = QUESTION
    if image_bytes:
        picture = base64.b64encode(random.Random(7).randbytes(image_bytes)).decode()
        url = {"url": f"data:image/png;base64,{picture}"}
        asked = [{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": url}]
    roles = {"system": SYSTEM, "user": asked}
    body = {
        "model": model,
        **({"stream": True} if is_stream else {}),
        "messages": [{"role": role, "content": content} for role, content in roles.items()],
        "temperature": 0.7,
        "max_tokens": max_tokens,
    }
    return json.dumps(body, separators=(",", ":")).encode()


def requests(host: str, keys: Sequence[str], body: bytes) -> tuple[bytes, ...]:
    """The bytes of the same call by each of the keys."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return tuple(
        f"{head}Authorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        for key in keys
    )
