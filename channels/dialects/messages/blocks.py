"""Decode the content blocks of a messages request into canonical parts.

Blocks that only this provider has (its own tools' calls and results, stored files) are left over by
name; the conversation around them is kept.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final, Literal

from msgspec.structs import replace

from channels.conversation import SESSIONS
from channels.dialects.messages.billing_header import FIELD, without_line
from channels.families import MESSAGES
from channels.json.lenient import dumps
from channels.translation.losses import LossReport
from channels.translation.media import inline_media, is_text, stated_type, text_of
from channels.translation.model import (
    ClientProtocol,
    FinishReason,
    Media,
    Part,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from channels.translation.signatures import UNSIGNED, opened

# Images and documents as blocks of the messages protocol, both ways.
#
# A block's source is inline base64, a URL, plain text, or nested blocks; a file stored at the
# provider is useless to any other.

_Kind = Literal["image", "document"]


def read_source(kind: _Kind, block: Mapping[str, Any], extras: dict[str, Any]) -> Media | None:
    """Return the medium of an image or document block; None if only the provider has its source."""
    source = block.get("source")
    if not isinstance(source, Mapping):
        return None
    title = block.get("title") if kind == "document" else None
    name = title if isinstance(title, str) else None
    form, data, url = source.get("type"), source.get("data"), source.get("url")
    mime_type = source.get("media_type")
    if form == "url" and isinstance(url, str):
        return Media(kind, None, url=url, name=name, extras=extras)
    if not isinstance(data, str):
        return None
    if form == "text":
        encoded = base64.b64encode(data.encode("utf-8", "replace")).decode("ascii")
        return Media(kind, "text/plain", data=encoded, name=name, extras=extras)
    stated = stated_type(mime_type if isinstance(mime_type, str) else None, data)
    return inline_media(kind, stated, data, member=kind, name=name, extras=extras)


def write_block(media: Media) -> dict[str, Any] | None:
    """Return the block of a medium; None if the protocol has no block for it."""
    if media.kind == "image":
        return {"type": "image", "source": _source(media)}
    if media.kind != "document":
        return None
    mime_type = media.mime_type or ""
    if media.data is not None and is_text(media):
        text = text_of(media.data)
        if text is None:
            return None
        source: dict[str, Any] = {"type": "text", "media_type": "text/plain", "data": text}
    elif media.data is not None and mime_type not in ("", "application/pdf"):
        return None
    else:
        source = _source(media)
    block = {"type": "document", "source": source}
    if media.name is not None:
        block["title"] = media.name
    return block


def _source(media: Media) -> dict[str, Any]:
    if media.data is None:
        return {"type": "url", "url": media.url}
    fallback = "application/pdf" if media.kind == "document" else "image/png"
    mime_type = media.mime_type or fallback
    return {"type": "base64", "media_type": mime_type, "data": media.data}


# Members of each block that become fields; the others are extras.
_KNOWN = {
    "text": {"type", "text"},
    "image": {"type", "source"},
    "document": {"type", "source", "title"},
    "search_result": {"type", "source", "title", "content"},
    "tool_reference": {"type", "tool_name"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}


class BlockReader:
    """Decodes the blocks of one request; keeps the calls' names for their results."""

    __slots__ = ("_names", "left_over")

    def __init__(self, left_over: dict[str, Any]) -> None:
        self.left_over = left_over
        self._names: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<BlockReader {len(self._names)} calls, {len(self.left_over)} left over>"

    def read(self, content: Any) -> list[Part]:
        """Return the parts of a `content` member: a string, or blocks."""
        if isinstance(content, str):
            return [Text(content)] if content else []
        parts: list[Part] = []
        for block in content if isinstance(content, list) else ():
            if isinstance(block, Mapping):
                parts.extend(self._read_block(block))
        return parts

    def read_texts(self, content: Any, path: str) -> list[Text]:
        """Return the texts of a `system` member, which allows nothing else."""
        texts = []
        for part in self.read(content):
            if not isinstance(part, Text):
                self.left_over[path] = True
            elif (kept := without_line(part.text)) is None:
                texts.append(part)
            else:
                self.left_over[FIELD] = True
                if kept.strip():
                    texts.append(replace(part, text=kept))
        return texts

    def _read_block(self, block: Mapping[str, Any]) -> list[Part]:
        kind = block.get("type")
        known = _KNOWN.get(kind, {"type"}) if isinstance(kind, str) else {"type"}
        extras = {
            name: value for name, value in block.items() if name not in known and value is not None
        }
        parts: list[Part] | None = None
        if kind == "text":
            text = _string(block, "text")
            parts = [Text(text, extras)] if text else []
        elif kind in ("image", "document"):
            parts = self._read_media(kind, block, extras)
        elif kind in ("thinking", "redacted_thinking"):
            parts = _read_thinking(block)
        elif kind == "tool_use":
            parts = [self._read_call(block, extras)]
        elif kind == "tool_result":
            parts = [self._read_result(block, extras)]
        elif kind == "tool_reference":
            # A tool that the provider's search found: its name is the result.
            self.left_over["messages.tool_reference"] = True
            parts = [Text(f"Tool found: {_string(block, 'tool_name') or ''}", extras)]
        elif kind == "search_result":
            # Its text is kept, but not that it was a search result.
            self.left_over["messages.search_result"] = True
            head = " ".join(filter(None, (_string(block, "title"), _string(block, "source"))))
            parts = [Text(head, extras), *self.read(block.get("content"))]
        if parts is None:
            self.left_over[f"messages.{kind}"] = True
            return []
        return parts

    def _read_media(
        self, kind: Any, block: Mapping[str, Any], extras: dict[str, Any]
    ) -> list[Part]:
        media = read_source(kind, block, extras)
        if media is not None:
            return [media]
        source = block.get("source")
        form = source.get("type") if isinstance(source, Mapping) else None
        if form == "content" and isinstance(source, Mapping):
            # A document made of blocks is replaced by those blocks.
            self.left_over["messages.document.source"] = True
            return self.read(source.get("content"))
        self.left_over[f"messages.{kind}.source.{form}"] = True
        return []

    def _read_call(self, block: Mapping[str, Any], extras: dict[str, Any]) -> ToolCall:
        call_id, name = _string(block, "id") or "", _string(block, "name") or ""
        self._names[call_id] = name
        given = block.get("input")
        return ToolCall(call_id, name, arguments_of(given), extras=extras)

    def _read_result(self, block: Mapping[str, Any], extras: dict[str, Any]) -> ToolResult:
        call_id = _string(block, "tool_use_id") or ""
        parts = tuple(
            part for part in self.read(block.get("content")) if isinstance(part, Text | Media)
        )
        return ToolResult(
            call_id,
            self._names.get(call_id),
            parts,
            is_error=block.get("is_error") is True,
            extras=extras,
        )


def arguments_of(given: Any) -> str:
    """Return a call's `input` as JSON text; a string is taken as such text."""
    if not given:
        return "{}"
    return given if isinstance(given, str) else dumps(given).decode()


def _read_thinking(block: Mapping[str, Any]) -> list[Part]:
    data = _string(block, "data")
    if data:
        data, signer = opened(data, own=MESSAGES.protocol)
        return [Thinking("", redacted=data, signer=signer)]
    text = _string(block, "thinking") or ""
    signature = _string(block, "signature")
    if signature and signature != UNSIGNED:
        signature, signer = opened(signature, own=MESSAGES.protocol)
        return [Thinking(text, signature=signature, signer=signer)]
    return [Thinking(text)] if text else []


def _string(block: Mapping[str, Any], name: str) -> str | None:
    value = block.get(name)
    return value if isinstance(value, str) else None


# Marks for the prompt's cache, of clients whose own protocol has others or needs none.
#
# Providers of this protocol keep what is marked and nothing else. To write it costs more than plain
# input (1.25 times), to read it a tenth: of a conversation with two calls more is a loss, of three
# and more a gain. So it takes tools, and the sign of an agent: a name of its conversation, calls of
# tools in two turns already, or tools and instructions that are long, which every request of its
# sessions begins with, or that were sent minutes ago (`gw/calls/openings.py`). Of a conversation
# that is only known by these the turns are marked once the model has answered, since a single
# question may be longer than all of them.
#
# A `prompt_cache_breakpoint` of a client becomes a mark. As in the client's protocol the latest are
# kept, and unless the client's mode is explicit, one is implicit: the user's last turn. A mark has
# this protocol's default lifetime, because longer ones cost more.

BREAKPOINT: Final = "prompt_cache_breakpoint"
# A mark that is not in the words of the client, identified as this object.
_MARK: Final = {"type": "ephemeral"}
_MARKS_MAX = 4  # more are refused
_MARKED_TURNS = 2  # the user's last, which writes, and the one before, which was written
_CALLING_TURNS_MIN = 2
# Bytes of tools and instructions that are long: some 4,000 tokens, the least that models cache.
LONG_BYTES_MIN = 16 * 1024


def split_mark(extras: Mapping[str, Any], *, takes_breakpoint: bool) -> tuple[Any, dict[str, Any]]:
    """Return the mark that the extras of another protocol's client state, and the other extras."""
    rest = dict(extras)
    mark = rest.pop("cache_control", None)
    if takes_breakpoint and isinstance(rest.get(BREAKPOINT), Mapping):
        stated = rest.pop(BREAKPOINT)
        rest |= {f"{BREAKPOINT}.{name}": one for name, one in stated.items() if name != "mode"}
        mark = _MARK if mark is None else mark
    return mark, rest


def mark_cache(
    request: Request,
    body: dict[str, Any],
    report: LossReport,
    *,
    is_session: bool,
    is_repeated: bool,
) -> None:
    """Mark the prefixes of later calls, unless the client did; drop breakpoints above the bound."""
    marked = list(_marked_in(body))
    may_mark = "tools" in body and not _is_explicit(request)
    is_agent = may_mark and _goes_on(request, is_session=is_session)
    if is_agent or (may_mark and not marked and (is_repeated or _is_long(request, body))):
        if not marked:
            body["tools"] = _marked(body["tools"])
            if "system" in body:
                body["system"] = _marked(body["system"])
            if is_agent or any(turn.role == "assistant" for turn in request.turns):
                _mark_turns(body, _MARKED_TURNS)
        elif all(block["cache_control"] is _MARK for block in marked):
            _mark_turns(body, 1)
            marked = list(_marked_in(body))
    breakpoints = [block for block in marked if block["cache_control"] is _MARK]
    for block in breakpoints[: max(0, len(marked) - _MARKS_MAX)]:
        del block["cache_control"]
        report.drop(request.origin.parts + BREAKPOINT)


def _marked_in(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the marked blocks, in the order of the prompt."""
    contents = (message["content"] for message in body["messages"])
    for content in (body.get("tools"), body.get("system"), *contents):
        for block in content if isinstance(content, list) else ():
            inner = block.get("content")
            for one in (*(inner if isinstance(inner, list) else ()), block):
                if "cache_control" in one:
                    yield one


def _is_long(request: Request, body: Mapping[str, Any]) -> bool:
    """Whether tools and instructions are long enough to be kept for any later request."""
    instructions = sum(len(text.text) for text in request.system)
    if instructions >= LONG_BYTES_MIN:
        return True
    return instructions + len(dumps(body["tools"])) >= LONG_BYTES_MIN


def _is_explicit(request: Request) -> bool:
    """Whether the client wants no marks but its own."""
    options = request.extras.get("prompt_cache_options")
    return isinstance(options, Mapping) and options.get("mode") == "explicit"


def _goes_on(request: Request, *, is_session: bool) -> bool:
    """Whether the conversation is likely to have further requests."""
    extras = request.extras
    metadata = extras.get("metadata")
    if is_session or extras.get("prompt_cache_key"):
        return True
    if isinstance(metadata, Mapping) and any(metadata.get(name) for name in SESSIONS):
        return True
    calling = (
        turn
        for turn in request.turns
        if turn.role == "assistant" and any(isinstance(part, ToolCall) for part in turn.parts)
    )
    return len(list(islice(calling, _CALLING_TURNS_MIN))) == _CALLING_TURNS_MIN


def _mark_turns(body: dict[str, Any], count: int) -> None:
    """Mark the ends of the user's last turns."""
    users = (message for message in reversed(body["messages"]) if message["role"] == "user")
    for message in islice(users, count):
        message["content"] = _marked(message["content"])


def _marked(blocks: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(blocks, str):
        return [{"type": "text", "text": blocks, "cache_control": _MARK}]
    return [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]


# The names of request members in messages, to report what was dropped.
#
# Keys are fields of `channels/translation/model.py`, values this protocol's names, dotted and
# without indices. A field without a name here cannot be in a messages request.

_NAMES = {
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "format": "output_config.format",
    "format.is_strict": "output_config.format",
    "format.schema": "output_config.format.schema",
    "reasoning.effort": "output_config.effort",
    "reasoning.budget_tokens": "thinking.budget_tokens",
    "reasoning.is_enabled": "thinking",
    "reasoning.shows_thoughts": "thinking.display",
    "user": "metadata.user_id",
    "tools.name": "tools.name",
    "tools.description": "tools.description",
    "tools.parameters": "tools.input_schema",
    "tools.is_strict": "tools.strict",
    "turn.role": "messages.role",
    "system": "system",
    "thinking": "messages.thinking",
    "call.arguments": "messages.tool_use.input",
    "image": "messages.image",
    "document": "messages.document",
    "media.name": "messages.document.title",
    "is_error": "messages.tool_result.is_error",
}

# Values equivalent to leaving the member out.
_NEUTRAL = {
    "service_tier": "auto",
    "speed": "standard",
    "inference_geo": "global",
    "mcp_servers": [],
    "tools.type": "custom",
    "tools.defer_loading": False,
    "tools.allowed_callers": ["direct"],
    "tools.eager_input_streaming": False,
    "tools.input_examples": [],
    "messages.citations": [],
    "messages.caller": {"type": "direct"},
}

ORIGIN = ClientProtocol(
    protocol=MESSAGES.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    system="system.",
    shows_thoughts=True,
)


# Stop reasons of the messages protocol, and their canonical equivalents.

_READ: dict[str, FinishReason] = {
    "end_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "pause_turn": "pause",
    "refusal": "refusal",
}
_WRITTEN: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "stop_sequence": "stop_sequence",
    "tool_calls": "tool_use",
    "pause": "pause_turn",
    "refusal": "refusal",
}


def read_finish(reason: str) -> FinishReason:
    """Return the canonical reason; an unknown one is a normal end."""
    return _READ.get(reason, "stop")


def read_explanation(details: Any) -> str | None:
    """Return the provider's explanation of a refusal, from `stop_details`."""
    explanation = details.get("explanation") if isinstance(details, Mapping) else None
    return explanation if isinstance(explanation, str) and explanation else None


def write_finish(
    reason: FinishReason | None,
    *,
    stop_sequence: str | None,
    explanation: str | None,
    has_calls: bool,
    has_refusal: bool,
) -> dict[str, Any]:
    """Return the members that state how a message ended.

    A refusal as the model's text ends a message like one by the provider.
    """
    word = _WRITTEN[reason or "stop"]
    if word == "end_turn" and has_calls:
        word = "tool_use"
    elif word == "end_turn" and has_refusal:
        word = "refusal"
    members: dict[str, Any] = {
        "stop_reason": word,
        "stop_sequence": stop_sequence if word == "stop_sequence" else None,
    }
    if word == "refusal" and explanation:
        members["stop_details"] = {
            "type": "refusal",
            "category": None,
            "explanation": explanation,
        }
    return members
