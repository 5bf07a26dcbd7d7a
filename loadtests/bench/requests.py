"""The requests of a benchmark: bodies for the models that the light upstream knows."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence

from loadtests.bench.canned import model_name
from loadtests.bench.client import http_request
from loadtests.bench.rig import Model

PATH = "/v1/chat/completions"
NATIVE, MESSAGES = "native", "translated"  # channels, and what a model is called after
CHANNELS = {NATIVE: "chat", MESSAGES: "messages"}
SYSTEM = "You are a helpful assistant."
QUESTION = (
    "Describe how a careful gateway counts what passes through it, token by token, and never "
    "loses one on the way."
)


def models(shapes: Sequence[tuple[int, int]]) -> list[Model]:
    """A native model for each number of events and pause, and one that has to be translated."""
    made = []
    for events, pause_ms in shapes:
        name = model_name(events, pause_ms)
        made.append(Model(name, [NATIVE]))
        made.append(Model(f"{MESSAGES}-{name}", [MESSAGES], name))
    return made


def chat_body(
    model: str, *, is_stream: bool = False, image_bytes: int = 0, max_tokens: int = 256
) -> bytes:
    """A body of chat-completions, with a picture of so many bytes inside."""
    asked: object = QUESTION
    if image_bytes:
        picture = base64.b64encode(random.Random(7).randbytes(image_bytes)).decode()
        url = {"url": f"data:image/png;base64,{picture}"}
        asked = [
            {"type": "text", "text": QUESTION},
            {"type": "image_url", "image_url": url},
        ]
    body: dict[str, object] = {"model": model}
    if is_stream:
        body["stream"] = True
    body["messages"] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": asked},
    ]
    body |= {"temperature": 0.7, "max_tokens": max_tokens}
    return json.dumps(body, separators=(",", ":")).encode()


def requests(host: str, keys: Sequence[str], body: bytes) -> tuple[bytes, ...]:
    """The same call by each of the keys."""
    return tuple(http_request(PATH, host, body, {"Authorization": f"Bearer {key}"}) for key in keys)
