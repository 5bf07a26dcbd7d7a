"""The record by which a call uses a dialect, of the same form for all dialects.

Each dialect has its own as `DIALECT` in `dialect.py` of its folder; `table.py` collects them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from channels.dialects.address import Address
from channels.dialects.hosting import Hosted, Hosting
from channels.dialects.meter import Meter
from channels.errors import InvalidRequest
from channels.family import Family
from channels.json.json_object import NOTHING, JsonObject
from channels.registry import ChannelSpec, ModelSpec
from channels.translation.codec import Codec


class ParsedChatRequest(Protocol):
    """A checked request of any dialect.

    `object` is the body as received; `content_bytes` is the length of the conversation as sent, for
    the pre-charge; `parameters` are those for the call log. `fault` is a deviation from the
    documentation: an upstream of the same protocol judges it, a translation refuses it.
    """

    @property
    def object(self) -> JsonObject: ...

    @property
    def model(self) -> str: ...

    @property
    def stream(self) -> bool: ...

    @property
    def content_bytes(self) -> int: ...

    @property
    def max_tokens(self) -> int | None: ...

    @property
    def builtin_tools(self) -> tuple[str, ...]: ...

    @property
    def parameters(self) -> Mapping[str, str]: ...

    @property
    def fault(self) -> InvalidRequest | None: ...


def _without_object(request: Any) -> Any:
    return replace(request, object=NOTHING)


def _usual_options(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    return {"upstream_model": upstream_model, "default_max_tokens": model.max_output_tokens}


def model_option(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    """Return the options of a dialect that only replaces the model's name."""
    return {"upstream_model": upstream_model}


class NamedRequest(Protocol):
    """A request whose body names a model."""

    @property
    def object(self) -> JsonObject: ...

    @property
    def model(self) -> str: ...


def renamed_body(request: NamedRequest, *, upstream_model: str) -> bytes:
    """Return the body with the upstream's model name; the same object if that is equal."""
    if request.model == upstream_model:
        return request.object.body
    return request.object.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form of one family on the wire, as `channels/dialects/<dialect>/dialect.py` has it.

    `read_request` takes a body, and by name the facts in the path. Raises InvalidRequest.
    `upstream_body` makes the body for a channel of the same protocol, with the `options` for that
    channel by name: from the upstream's model name, the channel, the model. `without_body` removes
    what grows with the body from a request. `without_foreign` takes a body and its outline
    (`json/outline.py`), and removes signatures that a translation sealed; None if there can be
    none. `hostings` are other providers' ways to host it, by the `wire` of a channel.
    """

    family: Family
    address: Address
    read_request: Callable[..., Any]
    upstream_body: Callable[..., bytes]
    without_body: Callable[[Any], Any] = _without_object
    options: Callable[[str, ChannelSpec, ModelSpec], dict[str, Any]] = _usual_options
    without_foreign: Callable[[bytes, bytes], bytes] | None = None

    hostings: Mapping[str, Hosting] = field(default_factory=dict)

    @property
    def protocol(self) -> str:
        return self.family.protocol

    def passthrough_body(
        self, request: Any, options: Mapping[str, Any], hosted: Hosted | None = None
    ) -> bytes:
        """Return the body of a checked request for a channel of the client's protocol."""
        written = self.upstream_body(request, **options)
        if self.without_foreign is not None:
            written = self.without_foreign(written, request.object.outline)
        if hosted is None:
            return written
        return self.hostings[hosted.wire].body(written, hosted.headers)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counting:
    """How a dialect counts the input tokens of a request (`counting.py`).

    `address` is the upstream's endpoint, `member` the count in the response, `rest` the other
    members. `needs`: members of which a request has one; `is_in_path`: the path names the model.
    The others weigh the estimate: `a_text` is a factor for text; tokens for each turn, call, image
    and tool, and `any_tools` once if there are tools.
    """

    address: Address
    member: str
    rest: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    is_in_path: bool = False
    a_text: float = 1.0
    a_turn: int = 4
    a_call: int = 8
    an_image: int
    a_tool: int = 8
    any_tools: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect(Dialect):
    """One chat dialect.

    `has_terminator`: a stream ends with its own event, so reading stops once the meter is
    `finished`. Otherwise it is read until the upstream ends it, and was cut unless `finished`.
    `ends`, for a stream that stops within its last event: whether the data is a final event despite
    the missing blank line.

    `codec` is for translations from it and to it; None without these. `closing_failure` closes a
    failed stream with an error of the gateway, with this message, and the client's terminator.
    `header_prefix` is the prefix of its provider's headers, of which a client's are sent to its
    channels. `needs_max_tokens`: a request must have a maximum.
    `takes_max_tokens_param`: upstreams differ in its name (`ChannelSpec.max_tokens_param`);
    `has_system_anywhere`: not all of them take instructions within a conversation
    (`has_system_first`); `takes_cache_key`: some take the conversation's name for their cache.
    `takes_is_here`: its codec may refuse a request that takes too long for the event loop
    (`TakesLong`). `marks_cache`: its upstreams cache only what is marked. `counting`: None if the
    protocol has no endpoint for it.
    """

    new_meter: Callable[[], Meter]
    has_terminator: bool
    ends: Callable[[bytes], bool]
    codec: Codec | None = None
    closing_failure: Callable[[str], bytes] | None = None
    header_prefix: str = ""
    needs_max_tokens: bool = False
    takes_max_tokens_param: bool = False
    has_system_anywhere: bool = False
    takes_cache_key: bool = False
    takes_is_here: bool = False
    marks_cache: bool = False
    counting: Counting | None = None
