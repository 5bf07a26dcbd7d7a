"""The spans of one call, as the rest of the gateway sees them.

    CallSpan                the call, from its head to its last byte
      ChildSpan             its hold; each attempt on a channel; its settlement

What waits for something of ours is a span; what happens within an attempt is an event of it, with
its time: `gw.leased`, `gw.connected`, `gw.response_head`, `gw.first_chunk`.

As they stand here they record nothing: this is what an unsampled call gets, shared objects whose
methods do nothing. The ones that record are in `recording.py`, who gets which in `tracing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from metrics.traceparent import TraceParent, render

AttributeValue = (
    str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
)
Attributes = Mapping[str, AttributeValue]

NO_ATTRIBUTES: Final[Attributes] = MappingProxyType({})
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})

# Events of an attempt.
LEASED: Final = "gw.leased"  # a slot of the channel is ours; what came before was waiting for it
CONNECTED: Final = "gw.connected"
RESPONSE_HEAD: Final = "gw.response_head"
FIRST_CHUNK: Final = "gw.first_chunk"  # of a stream, with something for the client in it
# Event of a call: its body is read and its model found.
REQUEST_READ: Final = "gw.request_read"


class RequestTrace:
    """What a request to an upstream brings of its call's trace, and whom it tells of its way.

    `header` is whole lines of its head; empty where the upstream is not told.
    """

    __slots__ = ("header",)

    def __init__(self, header: bytes) -> None:
        self.header = header

    def connected(self, *, is_reused: bool) -> None:
        """The request has a connection, a new one or one that was kept."""


class ChildSpan:
    """One step of a call."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<ChildSpan unsampled>"

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Note that something happens now."""

    def end(self, *, error_type: str | None = None, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """End it; it has failed where it has an error. The first word counts."""


class CallSpan:
    """One call.

    `sampled`: anything is recorded, and worth being collected. `trace_id` is of the trace the call
    belongs to, in hex; None where it belongs to none. `exemplar` is that of a trace that can be
    looked at, for the call's place in a histogram.

    These three are plain attributes, and what is only for sampled calls is asked for behind
    `sampled`: a method that does nothing still costs every call its turn.
    """

    __slots__ = ()

    sampled: bool = False
    trace_id: str | None = None
    exemplar: str | None = None

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """What a log line about the call says of its trace, as OpenTelemetry names it."""
        trace_id = self.trace_id
        return _NO_FIELDS if trace_id is None else {"trace_id": trace_id}

    def __repr__(self) -> str:
        return "<CallSpan unsampled>"

    def now(self) -> int:
        """Return this moment, for a child that began in it (`attempt`)."""
        return 0

    def event(self, name: str) -> None:
        """Note that something happens now."""

    def child(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> ChildSpan:
        """Start a step of our own: a hold, a settlement."""
        return UNSAMPLED_CHILD

    def attempt(
        self, name: str, *, began: int, attributes: Attributes = NO_ATTRIBUTES
    ) -> ChildSpan:
        """Start the span of a try on one channel, which began at `began` (`now`)."""
        return UNSAMPLED_CHILD

    def request_trace(
        self, *, propagates: bool, attributes: Attributes = NO_ATTRIBUTES
    ) -> RequestTrace | None:
        """Begin a request of the open attempt, which learns these attributes.

        None where nothing is to be said or noted. `propagates`: the upstream is told of the trace.
        """
        return None

    def end(
        self,
        *,
        error_type: str | None = None,
        is_failure: bool = False,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> None:
        """End it, and an attempt still open with it. The first word counts.

        `error_type` is how it went wrong, whoever's fault; `is_failure`: it was not the client's.
        """


class ContinuedCall(CallSpan):
    """A call of a trace that its caller does not record: passed on as it came, and no more."""

    __slots__ = ("_caller", "_state", "trace_id")

    def __init__(self, caller: TraceParent, state: str = "") -> None:
        self._caller = caller
        self._state = state
        self.trace_id = f"{caller.trace_id:032x}"

    def request_trace(
        self, *, propagates: bool, attributes: Attributes = NO_ATTRIBUTES
    ) -> RequestTrace | None:
        if not propagates:
            return None
        caller = self._caller
        header = render(trace_id=caller.trace_id, span_id=caller.span_id, is_sampled=False)
        return RequestTrace(header_lines(header, self._state))


def header_lines(traceparent: str, state: str) -> bytes:
    """Return the lines that tell an upstream of a trace; `state` is its `tracestate`, or empty."""
    lines = b"traceparent: %b\r\n" % traceparent.encode()
    return lines + b"tracestate: %b\r\n" % state.encode() if state else lines


UNSAMPLED_CHILD: Final = ChildSpan()
UNSAMPLED: Final = CallSpan()
