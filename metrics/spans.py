"""The spans of one call, as an interface for the rest of the gateway.

    CallSpan                the call, from its head to its last byte
      ChildSpan             its hold; each attempt on a channel; its settlement

Waiting for something of the gateway is a span; steps within an attempt are events of it, with their
time: `gw.leased`, `gw.connected`, `gw.response_head`, `gw.first_chunk`.

The classes here record nothing: an unsampled call gets shared objects with empty methods.
`recording.py` has those that record, and `tracing.py` decides on sampling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol

from metrics.trace_context import TraceParent, header_lines, render_traceparent

AttributeValue = (
    str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
)
Attributes = Mapping[str, AttributeValue]


class OnExport(Protocol):
    """Called after each export of `count` spans, in the exporter's thread."""

    def __call__(self, count: int, *, is_taken: bool) -> None: ...


NO_ATTRIBUTES: Final[Attributes] = MappingProxyType({})
_NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})

# Events of an attempt.
LEASED: Final = "gw.leased"  # a slot of the channel was leased; the time before was the wait for it
CONNECTED: Final = "gw.connected"
RESPONSE_HEAD: Final = "gw.response_head"
FIRST_CHUNK: Final = "gw.first_chunk"  # of a stream, with content for the client
# Event of a call: its body was read and its model found.
REQUEST_READ: Final = "gw.request_read"


class RequestTrace:
    """The trace context of a request to an upstream, and the observer of its phases.

    `header` has whole lines of its head; empty if the trace is not propagated.
    """

    __slots__ = ("header",)

    def __init__(self, header: bytes) -> None:
        self.header = header

    def connected(self, *, is_reused: bool) -> None:
        """The request has a connection, a new or a reused one."""


class ChildSpan:
    """One step of a call."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<ChildSpan unsampled>"

    def event(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """Record an event now."""

    def end(self, *, error_type: str | None = None, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """End it, as failed if it has an error. Only the first call counts."""


class CallSpan:
    """One call.

    `sampled`: anything is recorded and exported. `trace_id` is that of the call's trace, in hex;
    None without one. `exemplar` is that of a recorded trace, for the call's bucket in a histogram.

    These three are plain attributes, and what is only for sampled calls is guarded by `sampled`:
    even an empty method costs time in every call.
    """

    __slots__ = ()

    sampled: bool = False
    trace_id: str | None = None
    exemplar: str | None = None

    @property
    def log_fields(self) -> Mapping[str, Any]:
        """The trace's fields of a log line about the call, as OpenTelemetry names them."""
        trace_id = self.trace_id
        return _NO_FIELDS if trace_id is None else {"trace_id": trace_id}

    def __repr__(self) -> str:
        return "<CallSpan unsampled>"

    def now(self) -> int:
        """Return the present time, for a child that begins now (`attempt`)."""
        return 0

    def event(self, name: str) -> None:
        """Record an event now."""

    def child(self, name: str, attributes: Attributes = NO_ATTRIBUTES) -> ChildSpan:
        """Start a step of the gateway: a hold, a settlement."""
        return UNSAMPLED_CHILD

    def attempt(
        self, name: str, *, began: int, attributes: Attributes = NO_ATTRIBUTES
    ) -> ChildSpan:
        """Start the span of an attempt on one channel, which began at `began` (`now`)."""
        return UNSAMPLED_CHILD

    def request_trace(
        self, *, propagates: bool, attributes: Attributes = NO_ATTRIBUTES
    ) -> RequestTrace | None:
        """Begin a request of the open attempt with these attributes.

        None if nothing is sent or recorded. `propagates`: the upstream gets the trace.
        """
        return None

    def end(
        self,
        *,
        error_type: str | None = None,
        is_failure: bool = False,
        attributes: Attributes = NO_ATTRIBUTES,
    ) -> None:
        """End it, and an open attempt with it. Only the first call counts.

        `error_type` is how it failed; `is_failure`: it was not the client's fault.
        """


class ContinuedCall(CallSpan):
    """A call of a trace that its client does not record: the trace is only propagated."""

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
        header = render_traceparent(
            trace_id=caller.trace_id, span_id=caller.span_id, is_sampled=False
        )
        return RequestTrace(header_lines(header, self._state))


UNSAMPLED_CHILD: Final = ChildSpan()
UNSAMPLED: Final = CallSpan()
