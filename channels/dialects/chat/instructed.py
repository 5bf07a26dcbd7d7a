"""Requests to which the gateway adds a model, instructions, tools and material to read.

The client's turns and settings are kept byte for byte; its model and tools are dropped, whatever
they are. First `read_turn` checks the client's body like any other, then `instructed_body` makes
another body from it, which is parsed and sent as if a client had sent it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from channels.dialects.chat.members import AnyModelBody, ChatBody, MessagePart
from channels.dialects.chat.request import (
    NAMES,
    ChatRequest,
    asking_for_usage,
    max_tokens_of,
    read_request,
    without_body,
)
from channels.dialects.validation import Tables, refuse_lookalikes
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject
from channels.offload.jobs import check_values

# Members that choose a model, tools or a conversation, in lower case: the documented ones, and
# those by which some upstreams accept the same.
DROPPED = frozenset(
    (
        "tools",
        "tool_choice",
        "functions",
        "function_call",
        "parallel_tool_calls",
        "conversation_id",
        "session_id",
        "models",
        "plugins",
        "web_search_options",
    )
)

_TABLES = Tables(AnyModelBody)

_MESSAGES = msgspec.json.Decoder(list[Raw])
_NULL = b"null"

P = TypeVar("P", bound=MessagePart)


class InstructedTurn(Struct, frozen=True):
    """The facts of a client's request that decide about its instructed request.

    `text` is the text of the latest user message, up to the requested length; `has_images`: a
    message of any role has an `image_url` part; `fault` is an error within the messages that only
    an upstream of this protocol may accept.
    """

    stream: bool
    has_images: bool
    text: str
    fault: InvalidRequest | None = None


class Instructions(Struct, frozen=True):
    """The gateway's additions to a request.

    `persona` is a JSON string; `reading`, if any, is text inserted before the latest user message.
    `temperature` is the default for a client without one. With `is_collected` the upstream streams
    a response that the client gets as a whole.
    """

    model: str
    persona: bytes
    reading: str = ""
    temperature: float | None = None
    tools: tuple[str, ...] = ()
    is_collected: bool = False


class _Role(Struct, gc=False):
    role: str


class _Content(Struct, gc=False):
    content: str | list[Raw] | None = None


class _TextPart(MessagePart, gc=False):
    text: str | UnsetType = UNSET


_ROLE = msgspec.json.Decoder(_Role)
_CONTENT = msgspec.json.Decoder(_Content)
_PART = msgspec.json.Decoder(MessagePart)
_TEXT_PART = msgspec.json.Decoder(_TextPart)


def read_turn(body: bytes, *, text_characters: int) -> InstructedTurn:
    """Check a client's body except its model. Raises InvalidRequest with the faulty member.

    At most `text_characters` of the latest user message are read.
    """
    members = JsonObject.parse(body)
    refuse_lookalikes(members, NAMES)
    chat, fault = _TABLES.read(members)
    if fault is not None and not (fault.param or "").startswith("messages"):
        fault = None  # of a dropped member, or found again later
    max_tokens_of(chat)
    if chat.stream_options is not None:
        asking_for_usage(members.raw["stream_options"])
    return InstructedTurn(
        stream=chat.stream is True,
        has_images=_has_images(chat),
        text=_latest_text(members.raw["messages"], text_characters) if text_characters else "",
        fault=fault,
    )


def instructed_body(body: bytes, given: Instructions) -> bytes:
    """Return the body of a request that passed `read_turn`, with the additions."""
    return _written(JsonObject.parse(body).raw, given)


def instructed_at_once(body: bytes, given: Instructions) -> tuple[ChatRequest, bytes] | None:
    """Return the instructed request and its body in one parse; None unless the body is simple.

    A simple body has no fault, nothing to drop, no images and no escapes that may hide these.
    """
    if b"image_url" in body or b"\\u" in body:
        return None
    try:
        raw = JsonObject.parse(body).raw
        if "messages" not in raw or any(name.casefold() in DROPPED for name in raw):
            return None
        written = _written(raw, given)
        request = read_instructed(written)
    except InvalidRequest:  # the slower path reports it in terms of the client's body
        return None
    return (request, written) if request.fault is None else None


def _written(raw: Mapping[str, Raw], given: Instructions) -> bytes:
    made = {name: value for name, value in raw.items() if name.casefold() not in DROPPED}
    made["model"] = Raw(msgspec.json.encode(given.model))
    made["messages"] = Raw(_messages(raw["messages"], given))
    if bytes(made.get("temperature", _NULL)) == _NULL:
        made.pop("temperature", None)
        if given.temperature is not None:
            made["temperature"] = Raw(msgspec.json.encode(given.temperature))
    if given.tools:
        made["tools"] = Raw(msgspec.json.encode([{"type": tool} for tool in given.tools]))
    if given.is_collected:
        made["stream"] = Raw(b"true")
        made["stream_options"] = Raw(b'{"include_usage":true}')
    return msgspec.json.encode(made)


def read_instructed(body: bytes) -> ChatRequest:
    """Parse an instructed body; its conversation is counted without white space (reference 5.3)."""
    request = read_request(body)
    size = compact_size(bytes(request.object.raw["messages"]))
    return request if size == request.content_bytes else replace(request, content_bytes=size)


def turn_job(body: bytes, text_characters: int) -> tuple[InstructedTurn, None]:
    """Run `read_turn` on a large body, in another process. Raises InvalidRequest."""
    check_values(body)
    return read_turn(body, text_characters=text_characters), None


def instructed_job(body: bytes, given: Instructions) -> tuple[ChatRequest, bytes]:
    """Return the request made from a large body, without its body, and that body."""
    written = instructed_body(body, given)
    return without_body(read_instructed(written)), written


def compact_size(messages: bytes) -> int:
    """Return the length of a JSON text without white space between values, as UTF-8 with as few
    escapes as JSON allows."""
    if b"\\u" in messages or b"\\/" in messages:
        return len(msgspec.json.encode(msgspec.json.decode(messages)))
    return len(msgspec.json.format(messages, indent=-1))


def _has_images(chat: ChatBody) -> bool:
    for message in chat.messages:
        if isinstance(message.content, list):
            for part in message.content:
                known = _read(part, _PART) if isinstance(part, Raw) else part
                if known is not None and known.type == "image_url":
                    return True
    return False


def _read(raw: Raw, decoder: msgspec.json.Decoder[P]) -> P | None:
    """Decode a part; None if it has another shape, which the upstream judges."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _latest_text(messages: Raw, characters: int) -> str:
    """Join the text parts of the latest user message by line feeds."""
    turns = _MESSAGES.decode(messages)
    at = _latest_user(turns)
    if at is None:
        return ""
    content = _CONTENT.decode(turns[at]).content
    if isinstance(content, str):
        return content[:characters]
    texts: list[str] = []
    for raw in content or ():
        part = _read(raw, _TEXT_PART)
        if part is not None and part.type == "text" and part.text is not UNSET:
            texts.append(part.text)
    return "\n".join(texts)[:characters]


def _latest_user(turns: Sequence[Raw]) -> int | None:
    for at in range(len(turns) - 1, -1, -1):
        if _ROLE.decode(turns[at]).role == "user":
            return at
    return None


def _messages(client: Raw, given: Instructions) -> bytes:
    persona = b'{"role":"system","content":%b}' % given.persona
    if not given.reading:
        return b"[%b,%b" % (persona, bytes(client)[1:])
    turns = _MESSAGES.decode(client)
    at = _latest_user(turns)
    assert at is not None, "nothing is read without a question"
    reading = msgspec.json.encode({"role": "user", "content": given.reading})
    return b"[%b]" % b",".join((persona, *turns[:at], reading, *turns[at:]))
