"""The W3C `traceparent` header: read strictly, write exactly. Knows nothing of spans.

Source: W3C Trace Context, section 3.2. A header that is not well-formed is as good as none: the
call starts a trace of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

SAMPLED: Final = 0x01

# Lower case only. A version after 00 may append fields, which are not read; 00 has none, and ff
# is no version at all.
_HEADER: Final = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Who calls us: the trace, the caller's span, and whether the caller records it."""

    trace_id: int
    span_id: int
    is_sampled: bool


def parse(header: str) -> TraceParent | None:
    """Return what the header says, None when it is not well-formed."""
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
