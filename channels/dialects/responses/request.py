"""Parse a responses request, and make the body for an upstream from it.

The client's bytes are kept: only the model's name and the token maximum are edited in, and a string
as input becomes one user message (reference 2.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.conversation import stand_in
from channels.dialects import logged_parameters, validation
from channels.dialects.responses.client_tools import CLIENT_TOOLS, is_run_by_client
from channels.dialects.responses.members import (
    LOGGED,
    InputItem,
    ResponsesBody,
    ResponsesTool,
)
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject


def parameters(
    raw: Mapping[str, msgspec.Raw], read: ResponsesBody, *, is_documented: bool
) -> dict[str, str]:
    """Return the parameters for the call log, with the number of `input` items and `images`.

    Tools and images are only recognised in a documented body.
    """
    shown = logged_parameters.settings(raw, LOGGED)
    if not is_documented:
        return shown | logged_parameters.counts(input=len(read.input))
    if read.reasoning is not None:
        for name in ("effort", "summary"):
            value = getattr(read.reasoning, name)
            if isinstance(value, str):
                shown[f"reasoning.{name}"] = logged_parameters.setting(value)
    if "text" in raw:
        shown |= _text(raw["text"])
    if read.tools:
        shown["tools"] = logged_parameters.names_of([_name(tool) for tool in read.tools])
    if isinstance(read.input, str):
        return shown | {"input": "a string"}
    return shown | logged_parameters.counts(input=len(read.input), images=_images(read))


def _text(raw: msgspec.Raw) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # not an object: the upstream refuses it
    return logged_parameters.settings(config, ("format", "verbosity"), within="text.")


def _name(tool: ResponsesTool) -> str:
    return tool.type if tool.name is msgspec.UNSET else tool.name


def _images(read: ResponsesBody) -> int:
    found = 0
    for item in read.input:
        if not isinstance(item, str) and isinstance(item.content, list):
            found += [part.type for part in item.content].count("input_image")
    return found


_TABLES = validation.Tables(ResponsesBody)
_NAMES = validation.lookalikes_of(ResponsesBody.__struct_fields__)

# Tools that the client runs itself; the provider only trained its models for them.
_RUN_BY_CLIENT = frozenset(("function", "custom", "namespace", "computer", "computer_use"))


class ResponsesRequest(Struct, frozen=True):
    """A checked request, and the facts that the gateway needs.

    `content_bytes` is the length of `input` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by type without version; `parameters` are those for the call log;
    `fault` is an error that an upstream of this protocol judges itself.
    """

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes) -> ResponsesRequest:
    """Check a request body. Raises InvalidRequest with the faulty member."""
    members = validation.read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    _refuse_stored(read)
    if isinstance(read.input, list):
        _check_items(read.input)
    return ResponsesRequest(
        members,
        validation.check_model(read.model),
        read.stream is True,
        len(members.raw["input"]),
        read.max_output_tokens,
        _builtin_tools(read.tools) if read.tools else (),
        parameters(members.raw, read, is_documented=fault is None),
        fault,
    )


def upstream_body(
    request: ResponsesRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """Return the body for one channel; the client's own bytes if nothing has to change.

    `default_max_tokens` is sent if the client has no maximum; None leaves it out.
    """
    raw = request.object.raw
    replace: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    if request.model != upstream_model:
        replace["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None and default_max_tokens is not None:
        # A null counts as missing, but a name must not occur twice.
        target = replace if "max_output_tokens" in raw else add
        target["max_output_tokens"] = b"%d" % default_max_tokens
    text = bytes(raw["input"])
    if text[:1] == b'"':
        replace["input"] = b'[{"role":"user","content":%b}]' % text
    if not replace and not add:
        return request.object.body
    return request.object.edited(replace=replace, add=add)


def without_body(request: ResponsesRequest) -> ResponsesRequest:
    """Return the request without anything that grows with its body."""
    return replace(request, object=stand_in(request.object))


def _refuse_stored(read: ResponsesBody) -> None:
    """Refuse members that need a stored response: none is stored (reference 2.2).

    Nor may the upstream store it, whose account is shared: a tenant could name another's.
    """
    if read.previous_response_id is not None:
        raise InvalidRequest(
            "previous_response_id: conversations are not stored here; "
            "send the whole history in `input` each time.",
            "previous_response_id",
        )
    if read.conversation is not None:
        raise InvalidRequest(
            "conversation: conversations are not stored here; "
            "send the whole history in `input` each time.",
            "conversation",
        )
    if read.background:
        raise InvalidRequest(
            "background: answers are not stored here, so none can be fetched later; "
            "leave it out or send false.",
            "background",
        )


def _check_items(items: Iterable[InputItem]) -> None:
    for index, item in enumerate(items):
        if item.type == "item_reference":  # also to one that another tenant has stored
            raise InvalidRequest(
                f"input[{index}]: items are not stored here, so none can be referred to; "
                "send the item itself.",
                f"input[{index}]",
            )
        if item.type is msgspec.UNSET:
            missing = "role" if item.role is msgspec.UNSET else "content"
            if missing == "content" and item.content is not msgspec.UNSET:
                continue
            param = f"input[{index}].{missing}"
            words = _TABLES.allowed[f"input[].{missing}"]
            raise InvalidRequest(f"{param} is missing: expected {words}.", param)


def _builtin_tools(tools: Iterable[ResponsesTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(
        validation.unversioned(tool.type)
        for tool in tools
        if tool.type is not None and not _is_run_by_client(tool)
    )
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)


def _is_run_by_client(tool: ResponsesTool) -> bool:
    stated = {"type": tool.type, "execution": tool.execution, "environment": tool.environment}
    return tool.type in CLIENT_TOOLS and is_run_by_client(stated)
