"""The canonical model between the protocols: a conversation's parts, and a request.

Values only. Every field can be expressed by at least two protocols; what only one can express stays
in `extras`, scoped to that protocol: another carries what it shares, and the rest is reported.
Absent and empty differ: None means that the client did not state it. A response is its events
(`events.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from msgspec import Struct, field

# The `protocol` of a chat family (`channels/families.py`).
Protocol: TypeAlias = str
Role = Literal["user", "assistant"]
MediaKind = Literal["image", "document", "audio", "video"]
FinishReason = Literal["stop", "length", "tool_calls", "refusal", "stop_sequence", "pause"]
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EFFORTS: Mapping[str, Effort] = {one: one for one in get_args(Effort)}


class Text(Struct, frozen=True):
    """Plain text.

    `is_system` marks instructions within a conversation: they keep their position, as part of a
    user's turn for a target that cannot express them.
    """

    text: str
    extras: Mapping[str, object] = field(default_factory=dict)  # e.g. messages' cache_control
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
    extras: Mapping[str, object] = field(default_factory=dict)
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
    extras: Mapping[str, object] = field(default_factory=dict)


class ToolResult(Struct, frozen=True):
    """The result of a function, for the call with this id."""

    call_id: str
    name: str | None  # required by gemini; if a protocol has only the id, it is looked up
    parts: tuple[Text | Media, ...]
    is_error: bool = False
    extras: Mapping[str, object] = field(default_factory=dict)


class Refusal(Struct, frozen=True):
    """The model's refusal (chat and responses keep it separate from text)."""

    text: str


Part = Text | Media | Thinking | ToolCall | ToolResult | Refusal


class Turn(Struct, frozen=True):
    """A turn of one side; results come first. Adjacent turns of the same role have been merged."""

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


class Tool(Struct, frozen=True):
    """A function that the model may call; `parameters` is a JSON schema.

    `own_name` is the client's name for its calls, if its protocol has tools that are not functions,
    or groups of them.
    """

    name: str
    description: str | None = None
    parameters: Mapping[str, object] | None = None
    is_strict: bool | None = None
    extras: Mapping[str, object] = field(default_factory=dict)
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
    schema: Mapping[str, object] | None = None
    is_strict: bool | None = None
    description: str | None = None


class Reasoning(Struct, frozen=True):
    """The requested amount of thinking: as a level, as a number of tokens, or both."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    is_enabled: bool | None = None
    shows_thoughts: bool | None = None

    @property
    def asked(self) -> str:
        """The canonical name of the member that asks for thinking."""
        if self.effort is not None:
            return "reasoning.effort"
        has_budget = self.budget_tokens is not None and self.budget_tokens > 0
        return "reasoning.budget_tokens" if has_budget else "reasoning.is_enabled"


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
    neutral: Mapping[str, object]
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
    extras: Mapping[str, object] = field(default_factory=dict)  # members that only `origin` has
    origin: ClientProtocol

    def allowed_tools(self) -> tuple[Tool, ...]:
        """Return the tools allowed by `tool_choice`."""
        if self.tool_choice is None or not self.tool_choice.allowed:
            return self.tools
        allowed = frozenset(self.tool_choice.allowed)
        return tuple(tool for tool in self.tools if tool.name in allowed)
