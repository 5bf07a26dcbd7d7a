"""The span of a call and the span of an attempt, as the rest of the gateway sees them.

As they stand here they record nothing: this is what an unsampled call gets, one shared object
whose methods do nothing. The ones that record are in `recording.py`, who gets which in
`tracing.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

AttributeValue = (
    str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
)
Attributes = Mapping[str, AttributeValue]

NO_ATTRIBUTES: Final[Attributes] = MappingProxyType({})


class AttemptSpan:
    """One try on one channel."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<AttemptSpan unsampled>"

    def end(self, *, status_ok: bool, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """End it. The first word counts."""


class CallSpan:
    """One call. `sampled` tells whether it is worth collecting attributes for it."""

    __slots__ = ()

    @property
    def sampled(self) -> bool:
        """Whether anything is recorded."""
        return False

    def __repr__(self) -> str:
        return "<CallSpan unsampled>"

    def attempt(self, *, attributes: Attributes = NO_ATTRIBUTES) -> AttemptSpan:
        """Start the span `gw.failover.attempt` below this one."""
        return UNSAMPLED_ATTEMPT

    def set(self, attributes: Attributes) -> None:
        """Add attributes."""

    def end(self, *, status_ok: bool, attributes: Attributes = NO_ATTRIBUTES) -> None:
        """End it, and an attempt still open with it. The first word counts."""

    def traceparent(self) -> str | None:
        """Return the header for the request of the open attempt; None when unsampled."""
        return None


UNSAMPLED_ATTEMPT: Final = AttemptSpan()
UNSAMPLED: Final = CallSpan()
