"""Parse a chat-completions request, and make the body for an upstream from it.

The client's bytes are kept: only the model's name, the token maximum and the request for usage are
edited in (reference 2.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from channels import registry
from channels.conversation import stand_in
from channels.dialects.chat.members import LOGGED, ChatBody, ToolSpec
from channels.dialects.logged_parameters import names_of, settings
from channels.dialects.validation import Tables, refuse_lookalikes, unversioned
from channels.errors import InvalidRequest
from channels.json.json_object import InvalidJson, JsonObject


def parameters(
    raw: Mapping[str, msgspec.Raw], chat: ChatBody, *, is_documented: bool
) -> dict[str, str]:
    """Return the parameters for the call log, with the number of `messages` and `images`.

    Tools and images are only recognised in a documented body.
    """
    shown = settings(raw, LOGGED)
    if chat.stream_options is not None and chat.stream_options.include_usage:
        shown["stream_options.include_usage"] = "true"
    if chat.tools and is_documented:
        named = [one.type if one.function is UNSET else one.function.name for one in chat.tools]
        shown["tools"] = names_of(named)
    shown["messages"] = str(len(chat.messages))
    if is_documented and (images := _images(chat)):
        shown["images"] = str(images)
    return shown


def _images(chat: ChatBody) -> int:
    found = 0
    for message in chat.messages:
        if isinstance(message.content, list):
            found += [part.type for part in message.content].count("image_url")
    return found


_TABLES = Tables(ChatBody)
_INCLUDE_USAGE = b'{"include_usage":true}'

# Tools that the client runs itself.
_RUN_BY_CLIENT = frozenset(("function", "custom"))

# Members that are read, by the name under which an upstream that ignores case reads them.
NAMES = {name.casefold(): name for name in ChatBody.__struct_fields__}
_KNOWN = frozenset(NAMES)


class ChatRequest(Struct, frozen=True):
    """A checked request, and the facts that the gateway needs.

    `content_bytes` is the length of `messages` as sent; `max_tokens` is the client's maximum under
    either name; `builtin_tools` are the tools that the upstream runs, each once, by type without
    version; `usage_options` is the value of `stream_options` by which the upstream reports usage;
    `parameters` are those for the call log; `fault` is an error for a translation, which an
    upstream of this protocol judges itself.
    """

    object: JsonObject
    model: str
    stream: bool
    include_usage: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    usage_options: bytes = _INCLUDE_USAGE
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes) -> ChatRequest:
    """Check a request body. Raises InvalidRequest with the faulty member."""
    members = JsonObject.parse(body)
    raw = members.raw
    if not _KNOWN.issuperset(raw):
        refuse_lookalikes(members, NAMES)
    chat, fault = _TABLES.read(members)
    is_documented = fault is None
    if chat.tools and is_documented:
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
        parameters(raw, chat, is_documented=is_documented),
        fault,
    )


def upstream_body(
    request: ChatRequest,
    *,
    upstream_model: str,
    max_tokens_param: str | None,
    default_max_tokens: int | None,
) -> bytes:
    """Return the body for one channel; the client's own bytes if nothing has to change.

    `max_tokens_param` is the channel's name for the token maximum, under which a client's maximum
    is sent, too; None: the channel accepts either. `default_max_tokens` is sent if the client has
    no maximum; None leaves it out.
    """
    members = request.object
    raw = members.raw
    put: dict[str, bytes] = {}
    rename: dict[str, str] = {}
    if request.model != upstream_model:
        put["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None:
        if default_max_tokens is not None:
            put[max_tokens_param or registry.MAX_TOKENS_PARAMS[0]] = b"%d" % default_max_tokens
    elif max_tokens_param is not None:
        if max_tokens_param not in raw:
            rename[_other_max_tokens_param(max_tokens_param)] = max_tokens_param
        elif bytes(raw[max_tokens_param]) == b"null":
            put[max_tokens_param] = b"%d" % request.max_tokens
    if request.stream and not request.include_usage:
        put["stream_options"] = request.usage_options
    if not put and not rename:
        return members.body
    # A null counts as missing, but a name must not occur twice.
    present = put.keys() & raw.keys()
    return members.edited(
        replace={name: put[name] for name in present},
        add={name: value for name, value in put.items() if name not in present},
        rename=rename,
    )


def _other_max_tokens_param(param: str) -> str:
    return next(name for name in registry.MAX_TOKENS_PARAMS if name != param)


def without_body(request: ChatRequest) -> ChatRequest:
    """Return the request without anything that grows with its body."""
    return replace(request, object=stand_in(request.object), usage_options=b"{}")


def asking_for_usage(options: msgspec.Raw) -> bytes:
    """Set include_usage in `stream_options` and keep its other members.

    A duplicate member is refused: it could be edited, but its meaning is unknown.
    """
    try:
        members = JsonObject.parse(bytes(options))
    except InvalidJson as error:
        param = f"stream_options.{error.param}" if error.param else "stream_options"
        raise InvalidRequest(error.message, param) from None
    if "include_usage" in members.raw:
        return members.edited(replace={"include_usage": b"true"}, add={})
    return members.edited(replace={}, add={"include_usage": b"true"})


def max_tokens_of(chat: ChatBody) -> int | None:
    """Return the maximum under either name (reference 2.5)."""
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
                f"{param} is missing: expected {_TABLES.allowed['tools[].function']}.", param
            )
    return None


def _builtin_tools(chat: ChatBody) -> tuple[str, ...]:
    kinds: dict[str, None] = {}
    for tool in chat.tools or ():
        if tool.type is not None and tool.type not in _RUN_BY_CLIENT:
            kinds[unversioned(tool.type)] = None
    for kind in kinds if chat.stream is not True else ():
        if kind in registry.BUILTIN_TOOLS:  # reference 2.7
            raise InvalidRequest(
                f"The built-in tool `{kind}` needs `stream: true` on this endpoint.", "stream"
            )
    return tuple(kinds)


def chat_options(
    upstream_model: str, channel: registry.ChannelSpec, model: registry.ModelSpec
) -> dict[str, object]:
    return {
        "upstream_model": upstream_model,
        "max_tokens_param": channel.max_tokens_param,
        "default_max_tokens": model.max_output_tokens,
    }
