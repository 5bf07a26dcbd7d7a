"""Read a responses request, and make of it the body an upstream is sent.

The client's bytes are kept: only the model's name and the token maximum are edited in, and an
input that is a string becomes one user message (spec: Responses protocol; contract §7). The
members' types are in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.responses.parameters import parameters
from channels.dialects.responses.schema import (
    ALLOWED,
    Item,
    LenientBody,
    LenientItem,
    LenientTool,
    ResponsesBody,
    Tool,
)
from channels.dialects.validate import Tables, check_model, lookalikes_of, read_members, unversioned
from channels.errors import InvalidRequest
from channels.json.members import NOTHING, JsonObject

_TABLES = Tables(ResponsesBody, LenientBody, ALLOWED)
_NAMES = lookalikes_of(ResponsesBody.__struct_fields__)

# The client runs these itself; the provider only taught its models to use them.
_RUN_BY_CLIENT = frozenset(
    ("function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use")
)


class ResponsesRequest(Struct, frozen=True):
    """A checked request, and what the gateway needs to know of it.

    `content_bytes` is the length of `input` as sent; `builtin_tools` are the tools that the
    upstream runs, each once, by their type without its version;
    `parameters` is what the call log shows; `fault` is what an upstream of this protocol judges.
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
    """Check a request body. Raises InvalidRequest naming the member at fault."""
    members = read_members(body, _NAMES)
    read, fault = _TABLES.read(members)
    _refuse_stored(read)
    if isinstance(read.input, list):
        _check_items(read.input)
    return ResponsesRequest(
        members,
        check_model(read.model),
        read.stream is True,
        len(members.raw["input"]),
        read.max_output_tokens,
        _builtin_tools(read.tools) if read.tools else (),
        parameters(members.raw, read),
        fault,
    )


def upstream_body(
    request: ResponsesRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change.

    `default_max_tokens` is put in when the client named no maximum; None leaves it out.
    """
    raw = request.object.raw
    replace: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    if request.model != upstream_model:
        replace["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None and default_max_tokens is not None:
        # A null is as good as nothing, but a name must not be there twice.
        target = replace if "max_output_tokens" in raw else add
        target["max_output_tokens"] = b"%d" % default_max_tokens
    text = bytes(raw["input"])
    if text[:1] == b'"':
        replace["input"] = b'[{"role":"user","content":%b}]' % text
    if not replace and not add:
        return request.object.body
    return request.object.edited(replace=replace, add=add)


def without_body(request: ResponsesRequest) -> ResponsesRequest:
    """The request with nothing in it that grows with its body."""
    return replace(request, object=NOTHING)


def _refuse_stored(read: ResponsesBody | LenientBody) -> None:
    """Refuse what needs a response to be kept: nothing is stored here (spec: Responses protocol).

    Nor may it be at the upstream, whose account is shared: one tenant could name another's.
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


def _check_items(items: Iterable[Item | LenientItem]) -> None:
    for index, item in enumerate(items):
        if item.type == "item_reference":  # to what another tenant may have had stored, too
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
            words = ALLOWED[f"input[].{missing}"]
            raise InvalidRequest(f"{param} is missing: expected {words}.", param)


def _builtin_tools(tools: Iterable[Tool | LenientTool]) -> tuple[str, ...]:
    kinds = dict.fromkeys(unversioned(tool.type) for tool in tools if tool.type is not None)
    return tuple(kind for kind in kinds if kind not in _RUN_BY_CLIENT)
