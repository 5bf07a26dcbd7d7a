"""The canonical model between the protocols: a request, a response, and the events of a stream.

Values only. Every field can be expressed by at least two protocols; what only one can express stays
in `extras`, scoped to that protocol, and survives a translation back to it. Absent and empty
differ: None means that the client did not state it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import unquote_to_bytes

from msgspec import Struct, field

from channels.dialects.token_counts import Usage
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

    `is_system` marks instructions within a conversation: they keep their position, as part of a
    user's turn for a target that cannot express them.
    """

    text: str
    extras: Mapping[str, Any] = field(default_factory=dict)  # e.g. messages' cache_control
    is_system: bool = False


class Media(Struct, frozen=True):
    """An image, document, audio or video: either inline base64, or a URL.

    `member` is the client's name of the part, if that is for media of another kind.
    """

    kind: MediaKind
    mime_type: str | None
    data: str | None = None  # base64
    url: str | None = None
    detail: str | None = None  # chat's and responses' `detail`
    name: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    member: str | None = None


class Thinking(Struct, frozen=True):
    """Reasoning shown by a model; `signature` proves it to the provider that made it.

    `signer` is the protocol that made the signature; it is only valid there, and has to be returned
    there unchanged. `redacted` is opaque data in place of text.
    """

    text: str
    signature: str | None = None
    signer: Protocol | None = None
    redacted: str | None = None


class ToolCall(Struct, frozen=True):
    """A call of a function by the model. `arguments` is JSON text, as in streams."""

    id: str
    name: str
    arguments: str
    signature: str | None = None  # gemini's thoughtSignature belongs to the call
    signer: Protocol | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class ToolResult(Struct, frozen=True):
    """The result of a function, for the call with this id."""

    call_id: str
    name: str | None  # required by gemini; if a protocol has only the id, it is looked up
    parts: tuple[Text | Media, ...]
    is_error: bool = False
    extras: Mapping[str, Any] = field(default_factory=dict)


class Refusal(Struct, frozen=True):
    """The model's refusal (chat and responses keep it separate from text)."""

    text: str


Part = Text | Media | Thinking | ToolCall | ToolResult | Refusal


class Turn(Struct, frozen=True):
    """A turn of one side. Adjacent turns of the same role have been merged."""

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None  # chat's participant name


def is_system(part: Part) -> bool:
    """Whether a part is an instruction within a conversation."""
    return isinstance(part, Text) and part.is_system


def must_be_written(turn: Turn, origin: ClientProtocol) -> bool:
    """Whether the conversation would change without this turn; instructions may be blank."""
    return not all(
        is_system(part) or (origin.has_thoughts_apart and isinstance(part, Thinking))
        for part in turn.parts
    )


# --- A request ---


class Tool(Struct, frozen=True):
    """A function that the model may call; `parameters` is a JSON schema.

    `own_name` is the client's name for its calls, if its protocol has tools that are not functions,
    or groups of them.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    own_name: str | None = None


class ToolChoice(Struct, frozen=True):
    """Whether tools must be called; `name` belongs to "named".

    `allowed` restricts "auto" and "required" to these functions, unless it is empty.
    """

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None
    allowed: tuple[str, ...] = ()

    @property
    def forces_call(self) -> bool:
        """Whether the model must call a tool."""
        return self.mode in ("required", "named")


class Format(Struct, frozen=True):
    """The required form of the response; a schema belongs to "schema"."""

    kind: Literal["text", "json", "schema"]
    name: str | None = None
    schema: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    description: str | None = None


class Reasoning(Struct, frozen=True):
    """The requested amount of thinking: as a level, as a number of tokens, or both."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    is_enabled: bool | None = None
    shows_thoughts: bool | None = None


# The largest thinking budget of each level.
_LOW_TOKENS = 4096
_MEDIUM_TOKENS = 16384


def level_of(budget: int) -> Effort:
    """Return the level nearest to a number of tokens, which is above 0."""
    if budget <= _LOW_TOKENS:
        return "low"
    return "medium" if budget <= _MEDIUM_TOKENS else "high"


class ClientProtocol(Struct, frozen=True, kw_only=True):
    """The client's protocol, as far as translations need it.

    `names` are its names of a request's fields (of this module, dotted), if they differ; `neutral`
    are values of its own members, by dotted names, that are equivalent to leaving the member out.
    `provider` is the owner of its members, if one provider has several protocols, which share
    names.
    """

    protocol: Protocol
    names: Mapping[str, str]
    neutral: Mapping[str, Any]
    turns: str = "messages"  # the member that holds the conversation
    parts: str = "messages."  # the prefix of a part's member in reports
    tools: str = "tools."  # the prefix of a tool's member
    system: str | None = None  # the prefix of the instructions' member, if there is one
    modalities: str | None = None  # the member with the response's modalities
    shows_thoughts: bool = False  # the default for showing thoughts
    has_thoughts_apart: bool = False  # thoughts are not part of a message and may be dropped alone
    provider: str | None = None


class Request(Struct, frozen=True, kw_only=True):
    """A client's request, apart from model and streaming.

    `empty` are the paths of empty messages. They are kept as an empty text in a turn, unless the
    turn has other parts; not every protocol allows such a message.
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
    extras: Mapping[str, Any] = field(default_factory=dict)  # members that only `origin` has
    origin: ClientProtocol

    def allowed_tools(self) -> tuple[Tool, ...]:
        """Return the tools allowed by `tool_choice`."""
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
    explanation: str | None = None  # the provider's text about the finish, not the model's


# --- The events of a streamed response, in order ---


class Began(Struct, frozen=True):
    """The response begins. At most once, first."""

    id: str | None
    model: str | None


class TextDelta(Struct, frozen=True, gc=False):
    """More text; an event of another kind ends the text before it."""

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
    """A whole image or other medium made by the model."""

    media: Media


class Citation(Struct, frozen=True):
    """A source of the text from `start` up to, not including, `end`.

    Both are offsets in the characters of the whole response; None if not stated.
    """

    url: str
    title: str
    start: int | None = None
    end: int | None = None


class CallBegan(Struct, frozen=True):
    """Tool call number `index` (counted from 0) begins."""

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
    explanation: str | None = None  # the provider's text about it, not the model's


class UsageStated(Struct, frozen=True):
    """Token counts so far, which replace earlier ones."""

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


# Images and files in translations: data URIs, and the file type of the bytes.
#
# The stricter protocols refuse an image whose stated type differs from its bytes, and clients often
# state the wrong one. URLs are passed on and never fetched here.

# Magic numbers of the image types that every protocol supports, and of PDF.
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


_KINDS: Mapping[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
# Types of text besides text/*.
_TEXTS = frozenset(
    (
        *("application/json", "application/xml", "application/yaml", "application/x-yaml"),
        *("application/javascript", "application/x-javascript", "application/typescript"),
        *("application/x-sh", "application/sql", "application/toml", "application/x-ndjson"),
    )
)


def kind_of(mime_type: str | None) -> MediaKind:
    """Return the kind of medium of a type; a document for any other."""
    return _KINDS.get((mime_type or "").partition("/")[0].lower(), "document")


def inline_media(
    kind: MediaKind,
    mime_type: str | None,
    data: str,
    *,
    member: str,
    detail: str | None = None,
    name: str | None = None,
    extras: Mapping[str, Any],
) -> Media:
    """Return inline data as the kind of medium that its type is.

    `kind` is what the client's `member` is for: clients send PDFs as images. It counts for data
    without a type.
    """
    found = kind_of(mime_type) if mime_type else kind
    return Media(
        found,
        mime_type,
        data=data,
        detail=detail if found == "image" else None,
        name=name,
        extras=extras,
        member=None if found == kind else member,
    )


def is_text(media: Media) -> bool:
    """Whether a medium is inline text."""
    kind = (media.mime_type or "").partition(";")[0].strip()
    return media.data is not None and (kind.startswith("text/") or kind in _TEXTS)


def data_uri(media: Media) -> str:
    """Return the medium as a data URI; its data must be inline."""
    assert media.data is not None, media.kind
    return f"data:{media.mime_type or 'application/octet-stream'};base64,{media.data}"


def read_data_uri(uri: str) -> tuple[str | None, str] | None:
    """Return type and base64 data of a data URI; None if it is not one.

    The scheme is case-insensitive; parameters are dropped; percent-encoded data becomes base64.
    """
    if uri[:5].lower() != "data:":
        return None
    comma = uri.find(",")
    if comma < 0:
        return None
    data = uri[comma + 1 :]  # often megabytes, copied once
    # The parameters between the first and the last may be long, and are not parsed.
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
    """Return the type of base64 data: by its magic number, else as stated."""
    found = _type_of(data)
    if found is not None:
        return found
    if mime_type is None:
        return None
    mime_type = mime_type.lower()
    return _ALIASES.get(mime_type, mime_type)


def text_of(data: str) -> str | None:
    """Decode base64 data as text; None if it is not UTF-8 or not base64."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return None


def markdown(media: Media) -> str:
    """Return Markdown for an image, if responses are text (spec: Built-in tools 5)."""
    target = media.url if media.url is not None else data_uri(media)
    name = media.name or media.kind
    return f"![{name}]({target})" if media.kind == "image" else f"[{name}]({target})"


def split_markdown(text: str) -> list[str | Media]:
    """Split a text at images that it has as Markdown with data; without empty pieces."""
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


# Normalised turns: adjacent ones of the same role merged, tool results first in their turn.
#
# Every decoder produces them, so that every encoder may rely on it: the stricter protocols require
# alternating roles, and all results of one turn's calls at the beginning of the next turn. They
# also forbid empty messages: dropping one would change the conversation.

# Represents an empty message.
EMPTY = Text("")
_UNSAYABLE = (
    "the channel of this model speaks another protocol, which has no message without content; "
    "give it some or leave it out."
)


def refuse_empty(request: Request) -> None:
    """Raise InvalidRequest for an empty message, if the protocol forbids these."""
    for path in request.empty:
        raise InvalidRequest(f"{path}: {_UNSAYABLE}", path)


def unsayable(origin: ClientProtocol) -> InvalidRequest:
    """Return the client's error for a turn that cannot be expressed, or for no turn at all."""
    path = origin.turns
    return InvalidRequest(
        f"{path}: nothing of a message can be said to the channel of this model: {_UNSAYABLE}", path
    )
