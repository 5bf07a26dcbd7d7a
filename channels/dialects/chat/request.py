"""Read a chat-completions request, and make of it the body an upstream is sent.

The client's bytes are kept: only the model's name, the token maximum and the asking for usage are
edited in (spec: Chat pre-charge 2, Events; contract §5, §7). The members' types are in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.chat.parameters import parameters
from channels.dialects.chat.schema import ALLOWED, ChatBody, LenientBody, ToolSpec
from channels.dialects.type_errors import described
from channels.dialects.validate import Tables, unversioned
from channels.errors import InvalidRequest
from channels.json.members import NOTHING, InvalidJson, JsonObject
from channels.registry import BUILTIN_TOOLS, MAX_TOKENS_PARAMS

_TABLES = Tables(ChatBody, LenientBody, ALLOWED)
_INCLUDE_USAGE = b'{"include_usage":true}'

# The client runs these itself.
_RUN_BY_CLIENT = frozenset(("function", "custom"))

# Members we act on, by the name an upstream that ignores case would take for them.
_NAMES = {name.casefold(): name for name in ChatBody.__struct_fields__}


class ChatRequest(Struct, frozen=True):
    """A checked request, and what the gateway needs to know of it.

    `messages_bytes` is the length of `messages` as sent; `max_tokens` is the client's maximum under
    either name; `builtin_tools` are the tools that the upstream runs, each once, by their type
    without its version; `usage_options` is what `stream_options` has to be for the upstream to
    report usage;
    `parameters` is what the call log shows; `fault` is what a translation refuses, and an upstream
    of this protocol judges.
    """

    object: JsonObject
    model: str
    stream: bool
    include_usage: bool
    messages_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    usage_options: bytes = _INCLUDE_USAGE
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None

    @property
    def content_bytes(self) -> int:
        """`messages_bytes`, as requests of every dialect call it."""
        return self.messages_bytes


def read_request(body: bytes) -> ChatRequest:
    """Check a request body. Raises InvalidRequest naming the member at fault."""
    members = JsonObject.parse(body)
    raw = members.raw
    if not raw.keys() <= _NAMES.keys():
        refuse_lookalikes(members)
    chat, fault = _TABLES.read(members)
    if fault is None and isinstance(chat, ChatBody) and chat.tools:
        fault = _function_missing(chat.tools)
    if not chat.model.isprintable():
        raise InvalidRequest("model: control characters are not allowed.", "model")
    options = chat.stream_options
    return ChatRequest(
        members,
        chat.model,
        chat.stream is True,
        options is not None and options.include_usage is True,
        len(raw["messages"]),
        max_tokens_of(chat),
        _builtin_tools(chat) if chat.tools else (),
        _INCLUDE_USAGE if options is None else asking_for_usage(raw["stream_options"]),
        parameters(raw, chat),
        fault,
    )


def upstream_body(
    request: ChatRequest,
    *,
    upstream_model: str,
    max_tokens_param: str | None,
    default_max_tokens: int | None,
) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change.

    `max_tokens_param` is the channel's name for the token maximum, which a client's maximum goes
    under, too; None: the channel states none, and takes either. `default_max_tokens` is put under
    it when the client named no maximum; None leaves it out.
    """
    members = request.object
    raw = members.raw
    replace: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    rename: dict[str, str] = {}
    if request.model != upstream_model:
        replace["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None:
        if default_max_tokens is not None:
            # A null is as good as nothing, but a name must not be there twice.
            name = max_tokens_param or MAX_TOKENS_PARAMS[0]
            target = replace if name in raw else add
            target[name] = b"%d" % default_max_tokens
    elif max_tokens_param is not None:
        other = next(name for name in MAX_TOKENS_PARAMS if name != max_tokens_param)
        if other in raw and max_tokens_param not in raw:
            rename[other] = max_tokens_param
        elif max_tokens_param in raw and bytes(raw[max_tokens_param]) == b"null":
            replace[max_tokens_param] = b"%d" % request.max_tokens
    if request.stream and not request.include_usage:
        target = replace if "stream_options" in raw else add
        target["stream_options"] = request.usage_options
    if not replace and not add and not rename:
        return members.body
    return members.edited(replace=replace, add=add, rename=rename)


def without_body(request: ChatRequest) -> ChatRequest:
    """The request with nothing in it that grows with its body."""
    return replace(request, object=NOTHING, usage_options=b"{}")


def asking_for_usage(options: msgspec.Raw) -> bytes:
    """`stream_options` with include_usage true and its other members as they were.

    A member that is there twice is refused: it could be edited, but not understood.
    """
    try:
        members = JsonObject.parse(bytes(options))
    except InvalidJson as error:
        param = f"stream_options.{error.param}" if error.param else "stream_options"
        raise InvalidRequest(error.message, param) from None
    if "include_usage" in members.raw:
        return members.edited(replace={"include_usage": b"true"}, add={})
    return members.edited(replace={}, add={"include_usage": b"true"})


def max_tokens_of(chat: ChatBody | LenientBody) -> int | None:
    """The maximum under either name (contract §7: Token maximum)."""
    old, new = chat.max_tokens, chat.max_completion_tokens
    if old is not None and new is not None and old != new:
        raise InvalidRequest(
            f"max_completion_tokens: {new} contradicts max_tokens, which is {old}; send one.",
            "max_completion_tokens",
        )
    return old if new is None else new


def _function_missing(tools: Iterable[ToolSpec]) -> InvalidRequest | None:
    for index, tool in enumerate(tools):
        if tool.type == "function" and tool.function is msgspec.UNSET:
            param = f"tools[{index}].function"
            return InvalidRequest(
                f"{param} is missing: expected {ALLOWED['tools[].function']}.", param
            )
    return None


def _builtin_tools(chat: ChatBody | LenientBody) -> tuple[str, ...]:
    kinds: dict[str, None] = {}
    for tool in chat.tools or ():
        if tool.type is not None and tool.type not in _RUN_BY_CLIENT:
            kinds[unversioned(tool.type)] = None
    for kind in kinds if chat.stream is not True else ():
        if kind in BUILTIN_TOOLS:  # spec: Built-in tool rules 1
            raise InvalidRequest(
                f"The built-in tool `{kind}` needs `stream: true` on this endpoint.", "stream"
            )
    return tuple(kinds)


def refuse_lookalikes(members: JsonObject) -> None:
    """Refuse `Model` and its like: we bill by `model`, an upstream may read either."""
    for name in members.raw:
        meant = _NAMES.get(name.casefold())
        if meant is not None and meant != name:
            raise InvalidRequest(f"{described(name)} is not a member; did you mean {meant}?", name)
