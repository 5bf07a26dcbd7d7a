"""Requests that the gateway itself gives a model, instructions, tools and things to read.

The client has its turns and its settings, byte for byte; what it sends as model and tools is
dropped, whatever it is. First `read_turn` checks the client's body as any other is checked, then
`instructed_body` makes another one of it, which is read and sent as if it had come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType
from msgspec.structs import replace

from channels.dialects.chat.request import (
    ALLOWED,
    NAMES,
    AnyModelBody,
    ChatBody,
    ChatRequest,
    LenientAnyModelBody,
    LenientBody,
    Part,
    asking_for_usage,
    max_tokens_of,
    read_request,
    without_body,
)
from channels.dialects.validate import Tables, refuse_lookalikes
from channels.errors import InvalidRequest
from channels.json import JsonObject
from channels.offload.jobs import check_values

# Members that choose a model, tools or a conversation, by the name of one that ignores case: the
# documented ones, and those by which some upstreams take the same.
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

_TABLES = Tables(AnyModelBody, LenientAnyModelBody, ALLOWED)

_MESSAGES = msgspec.json.Decoder(list[Raw])
_NULL = b"null"

P = TypeVar("P", bound=Part)


class Turn(Struct, frozen=True):
    """What of a client's request decides what is made of it.

    `text` is the latest user message's, as far as it is wanted; `has_images`: a message,
    of whatever role, has an `image_url` part; `fault` is what of the messages only an upstream of
    this protocol may judge.
    """

    stream: bool
    has_images: bool
    text: str
    fault: InvalidRequest | None = None


class Instructions(Struct, frozen=True):
    """What the gateway puts into a request.

    `persona` is a JSON string; `reading`, if there is any, a text that goes directly before the
    latest user message. `temperature` holds where the client has none. With `is_collected` the
    upstream streams what the client wants as a whole.
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


class _TextPart(Part, gc=False):
    text: str | UnsetType = UNSET


_ROLE = msgspec.json.Decoder(_Role)
_CONTENT = msgspec.json.Decoder(_Content)
_PART = msgspec.json.Decoder(Part)
_TEXT_PART = msgspec.json.Decoder(_TextPart)


def read_turn(body: bytes, *, text_characters: int) -> Turn:
    """Check a client's body, all but its model. Raises InvalidRequest naming the member at fault.

    Of the latest user message so many characters are read.
    """
    members = JsonObject.parse(body)
    refuse_lookalikes(members, NAMES)
    chat, fault = _TABLES.read(members)
    if fault is not None and not (fault.param or "").startswith("messages"):
        fault = None  # of what is dropped, or is read again
    max_tokens_of(chat)
    if chat.stream_options is not None:
        asking_for_usage(members.raw["stream_options"])
    return Turn(
        stream=chat.stream is True,
        has_images=_has_images(chat),
        text=_latest_text(members.raw["messages"], text_characters) if text_characters else "",
        fault=fault,
    )


def instructed_body(body: bytes, given: Instructions) -> bytes:
    """The body of a request that `read_turn` has passed, with what the gateway gives it."""
    return _written(JsonObject.parse(body).raw, given)


def instructed_at_once(body: bytes, given: Instructions) -> tuple[ChatRequest, bytes] | None:
    """The request that is made of a usual body, and its own, with one reading; None of any other.

    Usual is what has no fault, nothing to drop, no pictures and no escapes that may hide these.
    """
    if b"image_url" in body or b"\\u" in body:
        return None
    try:
        raw = JsonObject.parse(body).raw
        if "messages" not in raw or any(name.casefold() in DROPPED for name in raw):
            return None
        written = _written(raw, given)
        request = read_instructed(written)
    except InvalidRequest:  # which names what the client sent only where that is read
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
    """Read such a body; its conversation counts as it is without white space (contract §6)."""
    request = read_request(body)
    size = compact_size(bytes(request.object.raw["messages"]))
    return request if size == request.messages_bytes else replace(request, messages_bytes=size)


def turn_job(body: bytes, text_characters: int) -> tuple[Turn, None]:
    """`read_turn` of a large body, in a process of its own. Raises InvalidRequest."""
    check_values(body)
    return read_turn(body, text_characters=text_characters), None


def instructed_job(body: bytes, given: Instructions) -> tuple[ChatRequest, bytes]:
    """The request that is made of a large body, without its body, and that."""
    written = instructed_body(body, given)
    return without_body(read_instructed(written)), written


def compact_size(messages: bytes) -> int:
    """The length of a JSON text without white space between values, as UTF-8 with as few escapes
    as JSON allows."""
    if b"\\u" in messages or b"\\/" in messages:
        return len(msgspec.json.encode(msgspec.json.decode(messages)))
    return len(msgspec.json.format(messages, indent=-1))


def _has_images(chat: ChatBody | LenientBody) -> bool:
    for message in chat.messages:
        if isinstance(message.content, list):
            for part in message.content:
                known = _read(part, _PART) if isinstance(part, Raw) else part
                if known is not None and known.type == "image_url":
                    return True
    return False


def _read(raw: Raw, decoder: msgspec.json.Decoder[P]) -> P | None:
    """A part as far as it is one; its shape is the upstream's business."""
    try:
        return decoder.decode(raw)
    except msgspec.ValidationError:
        return None


def _latest_text(messages: Raw, characters: int) -> str:
    """The text parts of the latest user message, one below the other."""
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
