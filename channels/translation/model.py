"""The one model between the protocols: a request, a response, and the events of a streamed
response.

Values only. Every field is what at least two protocols can express; what only one can stays in
`extras`, scoped to that protocol, and survives a hop back to it. Absent and empty are different:
None means that the client did not state it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

from channels.dialects.meter import Usage
from channels.errors import InvalidRequest

# The `protocol` of a chat family (`channels/families.py`).
Protocol: TypeAlias = str
Role = Literal["user", "assistant"]
MediaKind = Literal["image", "document", "audio", "video"]
FinishReason = Literal["stop", "length", "tool_calls", "refusal", "stop_sequence", "pause"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

# --- Parts of a turn ---


class Text(Struct, frozen=True):
    """Plain text.

    `is_system` marks instructions given in the middle of a conversation: they stay where they
    were, in a user's turn, for a target that knows no better.
    """

    text: str
    extras: Mapping[str, Any] = field(default_factory=dict)  # e.g. messages' cache_control
    is_system: bool = False


class Media(Struct, frozen=True):
    """An image, document, audio or video: inline base64, or by URL; exactly one of the two."""

    kind: MediaKind
    mime_type: str | None
    data: str | None = None  # base64
    url: str | None = None
    detail: str | None = None  # chat's and responses' `detail`
    name: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class Thinking(Struct, frozen=True):
    """Reasoning shown by a model; `signature` proves it to the provider that made it.

    `signer` is the protocol that made the signature; to any other it means nothing, but it must
    come back to its own unchanged. `redacted` is opaque data in place of text.
    """

    text: str
    signature: str | None = None
    signer: Protocol | None = None
    redacted: str | None = None


class ToolCall(Struct, frozen=True):
    """The model calls a function. `arguments` is JSON text, as streamed protocols carry it."""

    id: str
    name: str
    arguments: str
    signature: str | None = None  # gemini's thoughtSignature belongs to the call
    signer: Protocol | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class ToolResult(Struct, frozen=True):
    """What a function gave back, for the call with this id."""

    call_id: str
    name: str | None  # gemini wants it; where a protocol gives only the id it is looked up
    parts: tuple[Text | Media, ...]
    is_error: bool = False
    extras: Mapping[str, Any] = field(default_factory=dict)


class Refusal(Struct, frozen=True):
    """The model's own words for declining (chat and responses keep them apart from text)."""

    text: str


Part = Text | Media | Thinking | ToolCall | ToolResult | Refusal


class Turn(Struct, frozen=True):
    """One side speaks. Neighbouring turns of one role have been merged."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None  # chat's participant name


def is_system(part: Part) -> bool:
    """Whether a part is an instruction given in the middle of a conversation."""
    return isinstance(part, Text) and part.is_system


def must_be_written(turn: Turn, origin: ClientProtocol) -> bool:
    """Whether the conversation is another one without this turn; instructions may be blank."""
    return not all(
        is_system(part) or (origin.has_thoughts_apart and isinstance(part, Thinking))
        for part in turn.parts
    )


# --- A request ---


class Tool(Struct, frozen=True):
    """A function the model may call; `parameters` is a JSON schema.

    `own_name` is what calls of it are named for the client, where its protocol has tools that are
    no functions, or has them in groups.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    own_name: str | None = None


class ToolChoice(Struct, frozen=True):
    """Whether tools must be called; `name` goes with "named".

    `allowed` narrows "auto" and "required" to these functions; empty does not narrow.
    """

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None
    allowed: tuple[str, ...] = ()

    @property
    def forces_call(self) -> bool:
        """Whether the model must call a tool."""
        return self.mode in ("required", "named")


class Format(Struct, frozen=True):
    """The form the response is forced into; a schema goes with "schema"."""

    kind: Literal["text", "json", "schema"]
    name: str | None = None
    schema: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    description: str | None = None


class Reasoning(Struct, frozen=True):
    """How much thinking is requested: in words, or as a number of tokens; both where given."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    is_enabled: bool | None = None
    shows_thoughts: bool | None = None


class ClientProtocol(Struct, frozen=True, kw_only=True):
    """The protocol that a client speaks, as far as a translation must know it.

    `names` are its words for the fields of a request (of this module, dotted), where they differ;
    `neutral` are values of members that only it knows, by their dotted names, which mean no more
    than leaving the member out does. `provider` is whose members it has, where one provider has
    several protocols: they share names.
    """

    protocol: Protocol
    names: Mapping[str, str]
    neutral: Mapping[str, Any]
    turns: str = "messages"  # the member that holds the conversation
    parts: str = "messages."  # what is before the name of a part's member, when it is reported
    tools: str = "tools."  # the same for a tool's
    system: str | None = None  # the same for the instructions', where they have a member
    modalities: str | None = None  # the member that states what a response may be made of
    shows_thoughts: bool = False  # whether it does, unless the client states otherwise
    has_thoughts_apart: bool = False  # a thought is no part of a message: it may be left out alone
    provider: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """What a client requests, apart from model and streaming.

    `empty` are the paths of the empty messages. They stand among the turns as an empty
    text, unless their turn holds something else; not every protocol takes such a message.
    """

    system: tuple[Text, ...] = ()
    turns: tuple[Turn, ...] = ()
    empty: tuple[str, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    count: int | None = None  # chat's `n`, gemini's candidateCount
    format: Format | None = None
    reasoning: Reasoning | None = None
    user: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)  # members only `origin` knows
    origin: ClientProtocol

    def allowed_tools(self) -> tuple[Tool, ...]:
        """The tools that `tool_choice` leaves."""
        if self.tool_choice is None or not self.tool_choice.allowed:
            return self.tools
        allowed = frozenset(self.tool_choice.allowed)
        return tuple(tool for tool in self.tools if tool.name in allowed)


# --- A response ---


class Response(Struct, frozen=True, kw_only=True):
    """A whole response."""

    id: str | None
    model: str | None
    parts: tuple[Part, ...]
    finish: FinishReason | None
    stop_sequence: str | None = None
    usage: Usage | None = None
    explanation: str | None = None  # the provider's words for the finish, not the model's


# --- The events of a streamed response, in order ---


class Began(Struct, frozen=True):
    """The response begins. At most once, first."""

    id: str | None
    model: str | None


class TextDelta(Struct, frozen=True, gc=False):
    """More text; a change of kind ends what came before."""

    text: str


class RefusalDelta(Struct, frozen=True):
    """More of a refusal."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False):
    """More thinking, or its signature, or an opaque block of it."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    signer: Protocol | None = None


class MediaDelta(Struct, frozen=True):
    """A whole image or other medium that the model made."""

    media: Media


class Citation(Struct, frozen=True):
    """A source of the text: what stands from `start` to before `end` rests on it.

    Both count the characters of all text of the response; None where the upstream does not state.
    """

    url: str
    title: str
    start: int | None = None
    end: int | None = None


class CallBegan(Struct, frozen=True):
    """Tool call number `index` (counting tool calls, from 0) begins."""

    index: int
    id: str
    name: str
    signature: str | None = None
    signer: Protocol | None = None


class CallDelta(Struct, frozen=True, gc=False):
    """More of the arguments of tool call number `index`; calls may be interleaved."""

    index: int
    arguments: str


class Finished(Struct, frozen=True):
    """Why the model stopped. The usage may still follow."""

    reason: FinishReason
    stop_sequence: str | None = None
    explanation: str | None = None  # the provider's words for it, not the model's


class UsageStated(Struct, frozen=True):
    """Token counts so far: they replace what was stated before."""

    usage: Usage


class StreamFailed(Struct, frozen=True):
    """The upstream reported an error within its stream; nothing follows."""

    code: str | None
    message: str


class Ended(Struct, frozen=True):
    """The upstream's terminator: the response is complete. Without it the stream was cut."""


Event = (
    Began
    | TextDelta
    | RefusalDelta
    | ThinkingDelta
    | MediaDelta
    | Citation
    | CallBegan
    | CallDelta
    | Finished
    | UsageStated
    | StreamFailed
    | Ended
)


# Images and files between the protocols: data URIs, and what kind of file the bytes are.
#
# The stricter protocols refuse an image whose stated type is not what its bytes are, and clients
# often state the wrong one. URLs are not fetched here: URLs are passed on.

# First bytes of the kinds of image that every protocol takes, and of PDF.
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_IMAGE_BEGINS = "](data:image/"
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\((data:image/[\w.+-]+;base64,[A-Za-z0-9+/]+={0,2})\)")
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def data_uri(media: Media) -> str:
    """The medium as a data URI; its data must be inline."""
    assert media.data is not None, media.kind
    return f"data:{media.mime_type or 'application/octet-stream'};base64,{media.data}"


def read_data_uri(uri: str) -> tuple[str | None, str] | None:
    """Type and base64 data of a data URI; None when it is not one.

    The scheme is read in any case; parameters are dropped; percent-encoded data becomes base64.
    """
    if uri[:5].lower() != "data:":
        return None
    comma = uri.find(",")
    if comma < 0:
        return None
    data = uri[comma + 1 :]  # often megabytes, and copied once
    # What is between the first and the last parameter may be long, and is not looked at.
    mime_type, _, parameters = uri[5:comma].partition(";")
    mime_type = mime_type.strip()
    if parameters.rpartition(";")[2].strip().lower() == "base64":
        # Most are clean already, and may be megabytes.
        if "%" in data:
            data = unquote_to_bytes(data).decode("ascii", "replace")
        if not data.isascii() or any(space in data for space in " \n\r\t"):
            data = "".join(data.split())
    else:
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    return stated_type(mime_type or None, data), data


def stated_type(mime_type: str | None, data: str) -> str | None:
    """The type of base64 data: by its first bytes where they show it, else as it was stated."""
    found = _type_of(data)
    if found is not None:
        return found
    if mime_type is None:
        return None
    mime_type = mime_type.lower()
    return _ALIASES.get(mime_type, mime_type)


def text_of(data: str) -> str | None:
    """Base64 data as text; None when it is not UTF-8 or not base64."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return None


def markdown(media: Media) -> str:
    """An image the model made, for a protocol whose responses are text (spec: Built-in tools 5)."""
    target = media.url if media.url is not None else data_uri(media)
    name = media.name or media.kind
    return f"![{name}]({target})" if media.kind == "image" else f"[{name}]({target})"


def split_markdown(text: str) -> list[str | Media]:
    """A text and the images that are in it as Markdown with their data; empty pieces left out."""
    if _IMAGE_BEGINS not in text:
        return [text] if text else []
    pieces: list[str | Media] = []
    for index, piece in enumerate(_IMAGE.split(text)):
        inline = read_data_uri(piece) if index % 2 else None
        if inline is not None:
            pieces.append(Media("image", inline[0], data=inline[1]))
        elif piece:
            pieces.append(piece)
    return pieces


def _type_of(data: str) -> str | None:
    try:
        head = base64.b64decode(data[:32] + "=" * (-len(data[:32]) % 4))
    except (ValueError, binascii.Error):
        return None
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, mime_type in _MAGIC:
        if head.startswith(magic):
            return mime_type
    return None


# Turns put in order: neighbours of one role merged, tool results first in their turn.
#
# Every decoder ends here, so that every encoder may rely on it: the stricter protocols want roles
# to alternate, all results of one turn's calls in the next turn, and before anything else in it.
# They have no empty messages either: leaving one out would make another conversation of it.

# What stands for a message that is empty.
EMPTY = Text("")
_UNSAYABLE = (
    "the channel of this model speaks another protocol, which has no message without content; "
    "give it some or leave it out."
)


def refuse_empty(request: Request) -> None:
    """Raise InvalidRequest for a message that is empty, where the protocol has no such."""
    for path in request.empty:
        raise InvalidRequest(f"{path}: {_UNSAYABLE}", path)


def unsayable(origin: ClientProtocol) -> InvalidRequest:
    """The client's error for a turn of which nothing can be written, or for no turn at all."""
    path = origin.turns
    return InvalidRequest(
        f"{path}: nothing of a message can be said to the channel of this model: {_UNSAYABLE}", path
    )
