"""The W3C headers `traceparent` and `tracestate`: parsed strictly, rendered exactly.

Source: W3C Trace Context, sections 3.2 and 3.3. A malformed `traceparent` counts as absent: the
call starts its own trace. `tracestate` has the entries of tracing vendors; the gateway has none
of its own and changes none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

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


def parse_traceparent(header: str) -> TraceParent | None:
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


def render_traceparent(*, trace_id: int, span_id: int, is_sampled: bool) -> str:
    """Return the header for a request made within a span."""
    return f"00-{trace_id:032x}-{span_id:016x}-{SAMPLED if is_sampled else 0:02x}"


def header_lines(traceparent: str, state: str) -> bytes:
    """Return the header lines of a trace for an upstream; `state` is its `tracestate`, or empty."""
    lines = b"traceparent: %b\r\n" % traceparent.encode()
    return lines + b"tracestate: %b\r\n" % state.encode() if state else lines


# The least that must be propagated, and the most that the gateway propagates.
CHARACTERS_MAX: Final = 512
MEMBERS_MAX: Final = 32
# Longer entries are omitted first.
LONG_CHARACTERS: Final = 128

_KEY = r"[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13}"
_VALUE = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_MEMBER: Final = re.compile(f"({_KEY})=({_VALUE})", re.ASCII)


def propagated_tracestate(header: str) -> str:
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
