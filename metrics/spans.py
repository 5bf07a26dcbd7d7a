"""The spans of one call, as an interface for the rest of the gateway.

    CallSpan                the call, from its head to its last byte
      ChildSpan             its hold; each attempt on a channel; its settlement

Waiting for something of the gateway is a span; steps within an attempt are events of it, with their
time: `gw.leased`, `gw.connected`, `gw.response_head`, `gw.first_chunk`.

The classes here record nothing: an unsampled call gets shared objects with empty methods.
`recording.py` has those that record, and `tracing.py` decides on sampling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol

# The W3C `traceparent` header: parsed strictly, rendered exactly. Independent of spans.
#
# Source: W3C Trace Context, section 3.2. A malformed header counts as absent: the call starts its
# own trace.

SAMPLED: Final = 0x01

# Lower case only. A version after 00 may append fields, which are ignored; 00 has none, and ff is
# not a version.
_HEADER: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TraceParent:
    """The client's trace context: the trace, its span, and whether it is sampled."""

    trace_id: int
    span_id: int
    is_sampled: bool


def parse(header: str) -> TraceParent | None:
    """Return the content of the header, None if it is malformed."""
    match = _HEADER.fullmatch(header)
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == "00" and more is not None:
        return None
    return TraceParent(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_sampled=bool(int(flags, 16) & SAMPLED),
    )


def render(*, trace_id: int, span_id: int, is_sampled: bool) -> str:
    """Return the header for a request made within a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{SAMPLED if is_sampled else 0:02x}"


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
        header = render(trace_id=caller.trace_id, span_id=caller.span_id, is_sampled=False)
        return RequestTrace(header_lines(header, self._state))


def header_lines(traceparent: str, state: str) -> bytes:
    """Return the header lines of a trace for an upstream; `state` is its `tracestate`, or empty."""
    lines = b"traceparent: %b\r\n" % traceparent.encode()
    return lines + b"tracestate: %b\r\n" % state.encode() if state else lines


UNSAMPLED_CHILD: Final = ChildSpan()
UNSAMPLED: Final = CallSpan()


# The W3C `tracestate` header, sent with `traceparent`: the entries of tracing vendors.
#
# Source: W3C Trace Context, section 3.3. The gateway has no entry of its own and changes none.

# The least that must be propagated, and the most that the gateway propagates.
CHARACTERS_MAX: Final = 512
MEMBERS_MAX: Final = 32
# Longer entries are omitted first.
LONG_CHARACTERS: Final = 128

_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER: Final = re.compile(f"({_KEY})=({_VALUE})", re.ASCII)


def read(header: str) -> str:
    """Return the header to propagate: the well-formed members, each key once; may be empty.

    If they are too many or too long, long ones are omitted first, then the last ones.
    """
    members: dict[str, str] = {}
    for written in header.split(","):
        member = written.strip(" \t")
        match = _MEMBER.fullmatch(member)
        if match is not None:
            members.setdefault(match[1], member)
        if len(members) == MEMBERS_MAX:
            break
    kept = list(members.values())
    excess = sum(map(len, kept)) + len(kept) - 1 - CHARACTERS_MAX
    for is_long in (True, False):
        for member in reversed(kept.copy()):
            if excess > 0 and (len(member) > LONG_CHARACTERS) == is_long:
                kept.remove(member)
                excess -= len(member) + 1
    return ",".join(kept)
