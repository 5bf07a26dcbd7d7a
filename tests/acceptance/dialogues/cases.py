"""What the presets' upstreams answer, what it costs, and what clients are to be told."""

from collections.abc import Mapping
from typing import Any

TRANSLATIONS = {
    ("chat", "messages"): "openai_chat_to_anthropic_messages",
    ("chat", "native"): "openai_chat_to_gemini_native",
    ("messages", "chat"): "anthropic_messages_to_openai_chat",
    ("native", "chat"): "gemini_native_to_openai_chat",
    ("native", "messages"): "anthropic_messages_to_gemini_native",
    ("responses", "native"): "openai_responses_to_gemini_native",
    ("responses", "chat"): "openai_responses_to_openai_chat",
    ("responses", "messages"): "openai_responses_to_anthropic_messages",
    ("chat", "responses"): "openai_chat_to_openai_responses",
    ("messages", "responses"): "anthropic_messages_to_openai_responses",
    ("native", "responses"): "gemini_native_to_openai_responses",
}
PROTOCOLS = ("chat", "messages", "responses", "native")


def cost_nano_usd(input_tokens: int, output_tokens: int, cached_tokens: int) -> int:
    """What the house's price makes of these tokens."""
    return (input_tokens - cached_tokens) * 1000 + cached_tokens * 100 + output_tokens * 10_000


# What the answer ended by, in each client's word.
FINISHES: Mapping[str, Mapping[str, str]] = {
    "stop": {"chat": "stop", "messages": "end_turn", "responses": "completed", "native": "STOP"},
    "calls": {
        "chat": "tool_calls",
        "messages": "tool_use",
        "responses": "completed",
        "native": "STOP",
    },
}

SAID = "Rain over the harbour, all day long."
THOUGHT = "She asks for the weather: look it up."
ZURICH = ("weather", {"city": "Zürich", "days": [1, 2.5, None], "deep": {"x": "}\n{"}})


def stated(*calls: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]
