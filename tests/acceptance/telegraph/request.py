"""Read a telegraph request, and make of it the body an upstream is sent."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.logged_parameters import counts
from channels.dialects.validation import check_model, lookalikes_of, read_body
from channels.errors import InvalidRequest
from channels.json.json_object import NOTHING, JsonObject


class _Body(Struct):
    model: str
    text: str
    words: int | None = None
    stream: bool | None = None


ALLOWED = {"model": "a string", "text": "a string", "words": "an integer", "stream": "a boolean"}
_DECODER = msgspec.json.Decoder(_Body)
_NAMES = lookalikes_of(_Body.__struct_fields__)


class TelegraphRequest(Struct, frozen=True):
    """A checked request."""

    object: JsonObject
    model: str
    stream: bool
    content_bytes: int
    max_tokens: int | None
    builtin_tools: tuple[str, ...] = ()
    parameters: Mapping[str, str] = msgspec.field(default_factory=dict)
    fault: InvalidRequest | None = None


def read_request(body: bytes) -> TelegraphRequest:
    """Check a request body. Raises InvalidRequest."""
    members, read = read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    return TelegraphRequest(
        members,
        check_model(read.model),
        read.stream is True,
        len(members.raw["text"]),
        read.words,
        parameters=counts(words=read.words or 0),
    )


def upstream_body(
    request: TelegraphRequest, *, upstream_model: str, default_max_tokens: int | None
) -> bytes:
    """The client's body for one channel; the same bytes when nothing has to change."""
    members = request.object
    renamed: dict[str, bytes] = {}
    add: dict[str, bytes] = {}
    if request.model != upstream_model:
        renamed["model"] = msgspec.json.encode(upstream_model)
    if request.max_tokens is None and default_max_tokens is not None:
        (renamed if "words" in members.raw else add)["words"] = b"%d" % default_max_tokens
    return members.edited(replace=renamed, add=add) if renamed or add else members.body


def without_body(request: TelegraphRequest) -> TelegraphRequest:
    """The request with nothing in it that grows with its body."""
    return replace(request, object=NOTHING)
