"""The answer to an `Ask`: its text, tool calls, finish and usage, before any wire.

Everything follows from the request, the directive and the seed, so the same request gives the
same bytes. Tool calls and structured answers are examples of the request's JSON schemas: they
satisfy ordinary ones (types, enums, required, nested objects and arrays) and follow no `$ref`.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

from loadtests.simulator.ask import TOKEN_CHARS, Ask, Tool, tokens_of
from loadtests.simulator.directives import CallSpec, Directive, UsageSpec

MAX_DEPTH: Final = 8


def example_for(schema: bytes, words: str) -> Any:
    """A value for the schema's JSON text, using `words` where a string is wanted."""
    decoded = msgspec.json.decode(schema)
    return _example(decoded, words, depth=0) if isinstance(decoded, dict) else {}


def _example(schema: object, words: str, *, depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
        return None
    if "const" in schema:
        return schema["const"]
    if choices := _listed(schema, "enum"):
        return choices[len(words) % len(choices)]
    for union in ("anyOf", "oneOf"):
        if options := _listed(schema, union):
            return _example(options[0], words, depth=depth + 1)
    kind = _kind(schema)
    properties = schema.get("properties")
    members = properties if isinstance(properties, Mapping) else {}
    if kind == "object" or (not kind and properties is members):
        return {name: _example(inner, words, depth=depth + 1) for name, inner in members.items()}
    if kind == "array":
        return [_example(schema.get("items", {}), words, depth=depth + 1)]
    if kind in ("integer", "number"):
        return _number(schema, len(words), is_whole=kind == "integer")
    return {"boolean": True, "null": None}.get(kind, words)


def _listed(schema: Mapping[str, Any], name: str) -> list[Any]:
    listed = schema.get(name)
    return listed if isinstance(listed, list) else []


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((name for name in kind if name != "null"), "null")
    return kind.lower() if isinstance(kind, str) else ""  # native writes its types in capitals


def _number(schema: Mapping[str, Any], wish: int, *, is_whole: bool) -> int | float:
    low, high = schema.get("minimum", 0), schema.get("maximum", 100)
    number: float = min(max(wish, low), high)
    return int(number) if is_whole else number


ECHO_CHARS: Final = 160
EPOCH: Final = 1_760_000_000  # answers carry a moment near this one, not the clock's
WORDS: Final = (
    "rain over the harbour fills the small boats while a clerk counts lanterns and "
    "writes each number twice in a ledger nobody has closed since the spring floods, "
)
REFUSAL: Final = "refusal"
BLOCKED: Final = "content_filter"
THOUGHT: Final = "The request is short, so a short answer will do."


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call: `arguments` is the text as sent, JSON unless a directive states another."""

    token: str
    name: str
    arguments: str
    given_id: str | None = None

    def id(self, prefix: str) -> str:
        """The call's id on a wire whose ids begin with `prefix`."""
        return self.given_id or prefix + self.token


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """Counts to report: totals with their subsets inside, as `UsageSpec` has them."""

    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int
    members: dict[str, Any] = {}
    beside: dict[str, Any] = {}

    def stated(self, usage: dict[str, Any]) -> dict[str, Any]:
        """A dialect's usage with the members that the directive adds, or puts in its place."""
        return _merged(usage, self.members)

    def around(self, response: dict[str, Any]) -> dict[str, Any]:
        """What the usage stands in, with the members that the directive puts beside it."""
        return _merged(response, self.beside)


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """One turn of the assistant.

    `finish` is stop, length, tool_calls, refusal (the text is the model's declining),
    content_filter (the provider withheld the answer), or a dialect's own word.
    """

    id: str  # 64 hex digits; each dialect cuts its ids from it
    created: int  # Unix seconds
    text: str
    deltas: tuple[str, ...]
    thinking: str
    calls: tuple[Call, ...]
    finish: str
    stop_sequence: str | None
    usage: Tokens | None
    image_bytes: int  # how large a picture is at least
    events: int | None  # as the directive states it; the images wire makes so many images

    @property
    def is_declined(self) -> bool:
        """The model declines in words of its own."""
        return self.finish == REFUSAL

    @property
    def is_withheld(self) -> bool:
        """The provider gives nothing at all."""
        return self.finish == BLOCKED and not self.text

    @property
    def speaks(self) -> bool:
        """There is a text, be it an empty one."""
        return bool(self.text) or not (self.calls or self.is_withheld)


def compose(ask: Ask, directive: Directive, seed_key: bytes, body: bytes) -> Completion:
    """Derive the answer; `body` is the request's and only feeds the ids."""
    # A bounded sample keeps a megabyte of image from being hashed; the length distinguishes most.
    sample = b"%d:%b%b" % (len(body), body[:2048], body[-2048:])
    digest = blake2b(sample, key=seed_key, digest_size=32).hexdigest()
    is_declined = directive.blocked or directive.refusal is not None
    calls = () if is_declined else _calls(ask, directive, digest)
    is_silent = calls and not _states_text(directive)
    text, is_cut_short = ("", False) if is_silent else _text(ask, directive)
    thinking = directive.reasoning_text or (THOUGHT if ask.shows_reasoning else "")
    if directive.blocked:
        natural, thinking = BLOCKED, ""
    elif directive.refusal is not None:
        natural = REFUSAL
    else:
        natural = "tool_calls" if calls else "length" if is_cut_short else "stop"
    return Completion(
        id=digest,
        created=EPOCH + int(digest[:4], 16),
        text=text,
        deltas=_deltas(text, directive) if ask.stream else (),
        thinking=thinking,
        calls=calls,
        finish=directive.finish_reason or natural,
        stop_sequence=directive.stop_sequence,
        usage=None if directive.no_usage else _usage(ask, directive, text, thinking, calls),
        image_bytes=directive.image_bytes,
        events=directive.events,
    )


def filler_text(size: int) -> str:
    """So many characters of plain words."""
    return (WORDS * (size // len(WORDS) + 1))[:size]


def _text(ask: Ask, directive: Directive) -> tuple[str, bool]:
    """The text and whether the request's token maximum cut it short."""
    if directive.blocked:
        return "", False
    if directive.refusal is not None:
        return directive.refusal, False
    if directive.text is not None:
        return directive.text, False
    if directive.chars is not None:
        return filler_text(directive.chars), False
    if directive.events is not None:
        return filler_text(directive.events * (directive.chars_per_event or TOKEN_CHARS)), False
    echo = ask.text[:ECHO_CHARS]
    if ask.wants_json:
        shaped = example_for(ask.json_schema, echo) or {"answer": echo}
        text = msgspec.json.encode(shaped).decode()
    elif ask.tool_result is not None:
        text = f"The tool answered: {ask.tool_result[:ECHO_CHARS]}"
    else:
        text = f"You wrote: {echo}"
    limit = ask.max_tokens
    if limit is not None and len(text) > limit * TOKEN_CHARS:
        return text[: limit * TOKEN_CHARS], True
    return text, False


def _deltas(text: str, directive: Directive) -> tuple[str, ...]:
    """The text in the pieces a stream carries; `events` decides the number when it is given."""
    if not text:
        return ()
    if directive.events:
        count = min(directive.events, len(text))
        edges = [len(text) * number // count for number in range(count + 1)]
        return tuple(text[edges[i] : edges[i + 1]] for i in range(count))
    step = directive.chars_per_event or TOKEN_CHARS
    return tuple(text[at : at + step] for at in range(0, len(text), step))


def _calls(ask: Ask, directive: Directive, digest: str) -> tuple[Call, ...]:
    wish = directive.tool_calls
    if isinstance(wish, list):
        return tuple(
            _call(digest, number, spec.name, _arguments(spec), spec.id)
            for number, spec in enumerate(wish)
        )
    if wish is not None:
        count = wish
    elif directive.endless or _states_text(directive):
        return ()
    else:
        count = 0 if ask.tool_result is not None else ask.calls
    if not count:
        return ()
    words = ask.text[:ECHO_CHARS]
    tools = ask.tools or (Tool(name="lookup", schema=LOOKUP_SCHEMA),)
    called = [tools[number % len(tools)] for number in range(count)]
    return tuple(
        _call(digest, n, tool.name, msgspec.json.encode(example_for(tool.schema, words)).decode())
        for n, tool in enumerate(called)
    )


def _arguments(spec: CallSpec) -> dict[str, Any] | str:
    stated = spec.arguments
    if isinstance(stated, str):
        return stated
    grown = {name: f"{stated.get(name, '')}{filler_text(n)}" for name, n in spec.chars.items()}
    return {**stated, **grown}


LOOKUP_SCHEMA: Final = b'{"type":"object","properties":{"query":{"type":"string"}}}'


def _states_text(directive: Directive) -> bool:
    return (directive.text, directive.chars, directive.events) != (None, None, None)


def _call(
    digest: str, number: int, name: str, arguments: object, given_id: str | None = None
) -> Call:
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    token = blake2b(f"{digest}{number}".encode(), digest_size=12).hexdigest()
    return Call(token=token, name=name, arguments=arguments, given_id=given_id)


def _usage(
    ask: Ask, directive: Directive, text: str, thinking: str, calls: tuple[Call, ...]
) -> Tokens:
    result = directive.usage or UsageSpec()
    spoken = tokens_of(len(text) + sum(len(call.name) + len(call.arguments) for call in calls))
    reasoning = ask.reasoning_tokens or tokens_of(len(thinking))
    if result.reasoning is not None:
        reasoning = result.reasoning
    elif result.output is not None:
        reasoning = min(reasoning, result.output)
    total_input = ask.input_tokens if result.input is None else result.input
    cached = total_input // 2 if ask.reads_cache else 0
    written = total_input // 4 if ask.writes_cache else 0
    cached = cached if result.cached is None else result.cached
    written = written if result.cache_write is None else result.cache_write
    if result.input is None:
        total_input = max(total_input, cached + written)  # a stated input may contradict its parts
    return Tokens(
        input=total_input,
        output=spoken * ask.choices + reasoning if result.output is None else result.output,
        cached=cached,
        cache_write=written,
        reasoning=reasoning,
        members=result.members,
        beside=result.beside,
    )


def _merged(value: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    found = dict(value)
    for name, one in more.items():
        known = found.get(name)
        is_both = isinstance(known, dict) and isinstance(one, dict)
        found[name] = _merged(known, one) if is_both and isinstance(known, dict) else one
    return found
