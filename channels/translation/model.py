"""The one model between the protocols: a request, a response, and the events of a streamed
response.

Values only. Every field is what at least two protocols can say; what only one can say stays in
`extras`, scoped to that protocol, and survives a hop back to it. Absent and empty are different:
None means that the client did not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

from channels.usage import Usage

# The `protocol` of a chat family (`channels/families.py`).
Protocol: TypeAlias = str
Role = Literal["user", "assistant"]
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

    kind: Literal["image", "document", "audio", "video"]
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


# --- A request ---


class Tool(Struct, frozen=True):
    """A function the model may call; `parameters` is a JSON schema."""

    name: str
    description: str | None = None
    parameters: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class ToolChoice(Struct, frozen=True):
    """Whether tools must be called; `name` goes with "named".

    `allowed` narrows "auto" and "required" to these functions; empty does not narrow.
    """

    mode: Literal["auto", "none", "required", "named"]
    name: str | None = None
    allowed: tuple[str, ...] = ()


class Format(Struct, frozen=True):
    """The form the response is forced into; a schema goes with "schema"."""

    kind: Literal["text", "json", "schema"]
    name: str | None = None
    schema: Mapping[str, Any] | None = None
    is_strict: bool | None = None
    description: str | None = None


class Reasoning(Struct, frozen=True):
    """How much thinking is asked for: in words, or as a number of tokens; both where given."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    is_enabled: bool | None = None
    shows_thoughts: bool | None = None


class ClientProtocol(Struct, frozen=True, kw_only=True):
    """The protocol that a client speaks, as far as a translation must know it.

    `names` are its words for the fields of a request (of this file, dotted), where they differ;
    `neutral` are values of members that only it knows, by their dotted names, which say no more
    than leaving the member out does.
    """

    protocol: Protocol
    names: Mapping[str, str]
    neutral: Mapping[str, Any]
    turns: str = "messages"  # the member that holds the conversation
    parts: str = "messages."  # what stands before the name of a part's member, when told of
    tools: str = "tools."  # the same for a tool's
    system: str | None = None  # the same for the instructions', where they have a member
    modalities: str | None = None  # the member that says what a response may be made of
    shows_thoughts: bool = False  # whether it does, unless the client says otherwise


class Request(Struct, frozen=True, kw_only=True):
    """What a client asks for, apart from model and streaming.

    `empty` are the paths of the messages that say nothing. They stand among the turns as an empty
    text, unless their turn says something else; not every protocol takes such a message.
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
    """A source of what was said: the text from `start` to before `end` rests on it.

    Both count the characters of all text of the response; None where the upstream does not say.
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
