"""A deployment whose channels speak one protocol each, with every translation, and calls on it."""

import json
from typing import Any

from channels.translation.paths import TRANSLATIONS
from loadtests.rig.deployment import PRICE, Deployment, channel, model
from loadtests.rig.response import Response

USAGE = {"input": 1000, "output": 100, "cached": 400}
# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
COST_NANO_USD = 1_640_000
PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
NAMES = ("weather", "time")
CHAT_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in NAMES
]
TWO_CALLS = [
    {"name": "weather", "arguments": {"city": "Berlin", "in": "°C"}},
    {"name": "weather", "arguments": {"city": "Zürich"}},
]

T2 = "openai_chat_to_gemini_native"
# The documented value, which reads the other way round (reference 3.1).
T6 = "anthropic_messages_to_gemini_native"
PATHS = {"gemini": T2, "gpt": "gemini_native_to_openai_chat", "claude": T6}
CHANNELS = {
    "gemini": "speaks-native",
    "gpt": "speaks-chat",
    "claude": "speaks-messages",
    "codex": "speaks-responses",
}


# The models go by their channels; `both` has a native channel and then a chat one.
SETTINGS: dict[str, Any] = {
    "translations": [row.setting for row in TRANSLATIONS.values()],
    "channels": [
        channel("speaks-native", protocols=["native"]),
        channel("speaks-chat", protocols=["chat"], max_tokens_param="max_completion_tokens"),
        channel("speaks-messages", protocols=["messages"]),
        channel("speaks-responses", protocols=["responses"]),
        channel("failing", protocols=["native"], priority=1),
        channel("next", protocols=["chat"], priority=2),
    ],
    "models": [
        model("gemini", "speaks-native"),
        model("gpt", "speaks-chat"),
        model("claude", "speaks-messages"),
        model("codex", "speaks-responses"),
        model("both", "failing", "next"),
        model("writing", "speaks-messages", price={**PRICE, "cache_write": "1.25"}),
        model("unread", "speaks-messages", price={"input": "1", "output": "10"}),
    ],
}


def direct(h: Deployment, of_model: str, **directive: Any) -> None:
    """Give the channel of a model a directive."""
    h.upstream.fault(CHANNELS[of_model], **directive)


def chat(h: Deployment, **members: Any) -> Response:
    return h.client.chat(**{"model": "gemini", **members})


def gemini(
    h: Deployment,
    of_model: str,
    *,
    stream: bool = False,
    query: str = "?alt=sse",
    headers: dict[str, str] | None = None,
    **members: Any,
) -> Response:
    verb = f"streamGenerateContent{query}" if stream else "generateContent"
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}], **members}
    path = f"/v1beta/models/{of_model}:{verb}"
    return h.client.send("POST", path, body, headers={"x-goog-api-key": h.key, **(headers or {})})


def chunks(reply: Response) -> list[Any]:
    return [json.loads(event) for event in reply.events if event != b"[DONE]"]
