"""The table: every way through the gateway, what upstreams answer, what clients are to be told."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.dialogues.asked import Asked
from tests.support.house import channel, model

# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million; cache writes cost like the fresh.
USAGE = {"input": 1000, "output": 100, "cached": 400, "cache_write": 100, "reasoning": 0}
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


def settings() -> dict[str, Any]:
    """A house with a channel and a model for each protocol, every translation switched on."""
    return {
        "translations": [f"{client}_to_{upstream}" for client, upstream in TRANSLATIONS],
        "channels": [channel(f"speaks-{name}", protocols=[name]) for name in PROTOCOLS],
        "models": [
            model(f"on-{name}", f"speaks-{name}", max_output_tokens=8000) for name in PROTOCOLS
        ],
    }


def cost_nano_usd(input_tokens: int, output_tokens: int, cached_tokens: int) -> int:
    """What the house's price makes of these tokens."""
    return (input_tokens - cached_tokens) * 1000 + cached_tokens * 100 + output_tokens * 10_000


@dataclass(frozen=True)
class Way:
    """From a client, in one form of answer, to a channel."""

    client: str
    form: str  # whole, stream, and for native array too
    upstream: str

    def __str__(self) -> str:
        return f"{self.client}-{self.form}-on-{self.upstream}"

    @property
    def channel(self) -> str:
        return f"speaks-{self.upstream}"

    @property
    def model(self) -> str:
        return f"on-{self.upstream}"

    @property
    def translation(self) -> str | None:
        return TRANSLATIONS.get((self.client, self.upstream))


WAYS = [
    Way(client, form, upstream)
    for client in PROTOCOLS
    for upstream in PROTOCOLS
    if client == upstream or (client, upstream) in TRANSLATIONS
    for form in (["whole", "stream", "array"] if client == "native" else ["whole", "stream"])
]

# Where a refusal in the model's own words is apart from the text.
APART = ("chat", "responses")

# What the answer ended by, in each client's word.
FINISHES: Mapping[str, Mapping[str, str]] = {
    "stop": {"chat": "stop", "messages": "end_turn", "responses": "completed", "native": "STOP"},
    "calls": {
        "chat": "tool_calls",
        "messages": "tool_use",
        "responses": "completed",
        "native": "STOP",
    },
    "length": {
        "chat": "length",
        "messages": "max_tokens",
        "responses": "incomplete: max_output_tokens",
        "native": "MAX_TOKENS",
    },
    "refusal": {
        "chat": "content_filter",
        "messages": "refusal",
        "responses": "completed",
        "native": "SAFETY",
    },
    "blocked": {
        "chat": "content_filter",
        "messages": "refusal",
        "responses": "incomplete: content_filter",
        "native": "SAFETY",
    },
}


@dataclass(frozen=True)
class Case:
    """One answer. `directive` is the simulator's, `ends_by` a row of FINISHES."""

    name: str
    directive: Mapping[str, Any]
    ends_by: str = "stop"
    asked: Asked = field(default_factory=Asked)
    text: str = ""
    refusal: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    stop_sequence: str | None = None
    usage: Mapping[str, int] = field(default_factory=lambda: dict(USAGE))
    without: tuple[str, ...] = ()  # clients whose protocol cannot ask for it

    def __str__(self) -> str:
        return self.name

    def finish(self, way: Way) -> str:
        """The client's word for why the answer ended."""
        word = FINISHES[self.ends_by][way.client]
        if self.ends_by == "refusal" and way.client == "chat" and way.upstream in APART:
            return "stop"  # the refusal's own member says it all
        if self.ends_by == "refusal" and way.client == "responses" and way.upstream not in APART:
            return FINISHES["blocked"]["responses"]
        if self.ends_by == "blocked" and way.client == way.upstream == "native":
            return "blocked: SAFETY"
        if self.stop_sequence and way.client == way.upstream == "messages":
            return "stop_sequence"
        return word


WORDS = 'Grüße aus 東京 🌊, said "they" \\ and\nwent on'
SAID = "Rain over the harbour, all day long."
NO = "I would rather not say."
THOUGHT = "She asks for the weather: look it up."
ZURICH = ("weather", {"city": "Zürich", "days": [1, 2.5, None], "deep": {"x": "}\n{"}})
BASEL = ("weather", {"city": "Basel"})
NOW = ("now", dict[str, Any]())
TOOLS = Asked(has_tools=True)


def stated(*calls: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "arguments": arguments} for name, arguments in calls]


CASES = [
    Case("text", {"text": WORDS}, text=WORDS),
    Case("text in one piece", {"text": SAID, "chars_per_event": 1000}, text=SAID),
    Case("nothing to say", {"text": "", "usage": {**USAGE, "output": 0}}, usage={"output": 0}),
    Case("function call", {"tool_calls": stated(ZURICH)}, "calls", TOOLS, calls=(ZURICH,)),
    Case(
        "parallel calls",
        {"tool_calls": stated(ZURICH, BASEL, NOW)},
        "calls",
        TOOLS,
        calls=(ZURICH, BASEL, NOW),
    ),
    Case(
        "text, then calls",
        {"text": SAID, "tool_calls": stated(BASEL, NOW)},
        "calls",
        TOOLS,
        text=SAID,
        calls=(BASEL, NOW),
    ),
    Case("call without arguments", {"tool_calls": stated(NOW)}, "calls", TOOLS, calls=(NOW,)),
    Case("results of tools", {"text": SAID}, asked=Asked(has_results=True), text=SAID),
    Case("image in the request", {"text": SAID}, asked=Asked(image="inline"), text=SAID),
    Case("image by address", {"text": SAID}, asked=Asked(image="url"), text=SAID),
    Case(
        "thinking",
        {"text": SAID, "reasoning_text": THOUGHT, "usage": {**USAGE, "reasoning": 40}},
        asked=Asked(thinks=True),
        text=SAID,
        thinking=THOUGHT,
        usage={"reasoning": 40},
    ),
    Case(
        "thinking, then calls",
        {
            "tool_calls": stated(ZURICH, NOW),
            "reasoning_text": THOUGHT,
            "usage": {**USAGE, "reasoning": 40},
        },
        "calls",
        Asked(thinks=True, has_tools=True),
        thinking=THOUGHT,
        calls=(ZURICH, NOW),
        usage={"reasoning": 40},
    ),
    Case("refusal", {"refusal": NO}, "refusal", refusal=NO),
    Case("length", {"text": SAID, "finish_reason": "length"}, "length", text=SAID),
    Case(
        "blocked",
        {"blocked": True, "usage": {**USAGE, "output": 0}},
        "blocked",
        usage={"output": 0},
    ),
    Case(
        "stop sequence",
        {"text": SAID, "stop_sequence": "END"},
        asked=Asked(stop="END"),
        text=SAID,
        stop_sequence="END",
        without=("responses",),
    ),
]
