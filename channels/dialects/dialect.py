"""What a call needs to know of a chat dialect, the same for all four, and the table of them.

Reading a request and making the upstream's body differ in their arguments and stay with each
dialect (`read_request`, `upstream_body`); so do addresses and headers (`address.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from channels.dialects import chat, messages, responses
from channels.dialects import gemini as native
from channels.dialects.meter import ErrorEvent
from channels.errors import InvalidRequest
from channels.json.members import JsonObject
from channels.usage import PartialUsage, Usage


class MeterReading(Protocol):
    """What a meter has read of an answer so far: all that its charge rests on.

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


class Asked(Protocol):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One chat dialect.

    `has_terminator`: a stream ends with an event of its own, so reading stops once the meter is
    `finished`. Without one it is read until the upstream ends it, and was cut unless `finished`.

    `ends` is for a stream that stops within its last event: whether the data so far, though no
    blank line follows, are an event that counts.
    """

    protocol: str
    new_meter: Callable[[], Meter]
    has_terminator: bool
    ends: Callable[[bytes], bool]


CHAT = Dialect(
    protocol="chat",
    new_meter=chat.ChatMeter,
    has_terminator=True,
    ends=chat.ends,
)
MESSAGES = Dialect(
    protocol="messages",
    new_meter=messages.MessagesMeter,
    has_terminator=True,
    ends=messages.ends,
)
RESPONSES = Dialect(
    protocol="responses",
    new_meter=responses.ResponsesMeter,
    has_terminator=True,
    ends=responses.ends,
)
NATIVE = Dialect(
    protocol="native", new_meter=native.NativeMeter, has_terminator=False, ends=native.ends
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {dialect.protocol: dialect for dialect in (CHAT, MESSAGES, RESPONSES, NATIVE)}
)
