"""What a call needs to know of a dialect: one record each, the same for all of them.

Each dialect's own is `DIALECT` in its folder's `dialect.py`; `table.py` is the table of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from channels.dialects.address import Address
from channels.dialects.hosting import Hosting
from channels.dialects.meter import ErrorEvent
from channels.errors import InvalidRequest
from channels.families import Family
from channels.json.members import JsonObject
from channels.registry import ChannelSpec, ModelSpec
from channels.translation.codec import Codec, StreamingUpstream
from channels.usage import PartialUsage, Usage


class MeterReading(Protocol):
    """What a meter has read of a response so far: all that its charge rests on.

    `partial_usage` is what was stated while `usage` is None.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial_usage(self) -> PartialUsage | None: ...

    @property
    def characters(self) -> int: ...

    @property
    def finished(self) -> bool: ...

    @property
    def error_seen(self) -> object: ...


class Meter(MeterReading, Protocol):
    """Reads one upstream answer as it passes, event by event or whole.

    `read` gives what an event's data hold, for the meter and for a translation both; None where
    they cannot be read. `take` meters it, and `event` does the two in one; False where the event
    is one that only a client that asked for usage gets. None of them raises. `body` raises
    UpstreamMalformed.
    """

    @property
    def error_seen(self) -> ErrorEvent | None: ...

    @property
    def finish_reason(self) -> str | None: ...

    @property
    def response_id(self) -> str | None: ...

    @property
    def response_model(self) -> str | None: ...

    @property
    def malformed_events(self) -> int: ...

    def event(self, data: bytes) -> bool: ...

    def read(self, data: bytes) -> Any: ...

    def take(self, read: Any) -> bool: ...

    def body(self, body: bytes) -> None: ...


class ParsedChatRequest(Protocol):
    """What a checked request of any dialect tells the gateway.

    `object` is the body as it came; `content_bytes` is the length of the conversation as sent, for
    the pre-charge; `parameters` is what the call log shows of the request. `fault` is what is not
    as documented: an upstream of the same protocol judges it, a translation refuses it.
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


def _usual_options(upstream_model: str, channel: ChannelSpec, model: ModelSpec) -> dict[str, Any]:
    return {"upstream_model": upstream_model, "default_max_tokens": model.max_output_tokens}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The form on the wire of one family: what `channels/dialects/<dialect>/dialect.py` registers.

    `read_request` takes a body, and by name what the path says besides. Raises InvalidRequest.
    `upstream_body` makes of the request the body for a channel that speaks the same, given by name
    the `options` for that channel: of the upstream's name of the model, the channel, the model.
    `without_body` leaves nothing in a request that grows with its body.
    `without_foreign` takes a body and its outline (`channels/json/outline.py`), and takes out the
    signatures that a translation sealed; None where there can be none.
    """

    family: Family
    address: Address
    read_request: Callable[..., Any]
    upstream_body: Callable[..., bytes]
    without_body: Callable[[Any], Any]
    options: Callable[[str, ChannelSpec, ModelSpec], dict[str, Any]] = _usual_options
    without_foreign: Callable[[bytes, bytes], bytes] | None = None

    @property
    def protocol(self) -> str:
        return self.family.protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatDialect(Dialect):
    """One chat dialect.

    `has_terminator`: a stream ends with an event of its own, so reading stops once the meter is
    `finished`. Without one it is read until the upstream ends it, and was cut unless `finished`.
    `ends` is for a stream that stops within its last event: whether the data so far, though no
    blank line follows, are an event that counts.

    `upstream` is what a translation to it needs, `codec` what a translation from it needs as well;
    None where there is none. `closing_failure` closes a failed stream with an error of the
    gateway's, whose message it takes, and the client's terminator.
    `hostings` are other providers' ways to host it, by the `wire` of a channel.
    `needs_max_tokens`: a request must name a maximum. `takes_max_tokens_param`: upstreams differ in
    the name they have for it (`ChannelSpec.max_tokens_param`).
    """

    new_meter: Callable[[], Meter]
    has_terminator: bool
    ends: Callable[[bytes], bool]
    upstream: StreamingUpstream | None = None
    codec: Codec | None = None
    closing_failure: Callable[[str], bytes] | None = None
    hostings: Mapping[str, Hosting] = field(default_factory=dict)
    needs_max_tokens: bool = False
    takes_max_tokens_param: bool = False
