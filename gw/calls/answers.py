"""What one attempt can bring back: an answer whole, an answer as a stream, a refusal, a failure.

Values only; how they come about is `attempt.py`, what they mean for the call `ending.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from channels.dialects.dialect import Meter
from channels.dialects.error_body import ErrorMembers
from channels.errors import UnexpectedStatus, UpstreamError
from channels.http.interfaces import UpstreamResponse
from channels.masking import StreamMask
from gw.calls.call import Framing

if TYPE_CHECKING:
    from gw.calls.blocks import EventBlocks


class ErrorBody(Struct, frozen=True):
    """An upstream's error as it came, where endpoints pass it on unchanged (spec: Images)."""

    content_type: str
    body: bytes


class UpstreamFailed(UpstreamError):
    """The upstream answered with a server error."""

    def __init__(
        self,
        status: int,
        told: ErrorMembers,
        *,
        retry_after: str | None = None,
        error_body: ErrorBody | None = None,
    ) -> None:
        super().__init__(status)
        self.status = status
        self.told = told
        self.retry_after = retry_after
        self.error_body = error_body


class ErrorReported(UpstreamError):
    """The upstream reported an error within its answer."""

    status = 502  # what the client is told; its own was that of an answer
    retry_after: str | None = None

    def __init__(self, told: ErrorMembers) -> None:
        super().__init__()
        self.told = told


def is_success(status: int) -> bool:
    """Whether an answer stands behind this status, or else an error (4xx, 5xx).

    Raises UnexpectedStatus where it is neither: a redirect is not followed, and nothing is no
    answer (contract §7: A 2xx that cannot be used).
    """
    if 200 <= status < 300 and status != 204:
        return True
    if 400 <= status < 600:
        return False
    raise UnexpectedStatus(status)


class Refusal(Struct, frozen=True):
    """The upstream refused the request (4xx): an answer, to be passed on."""

    status: int
    told: ErrorMembers
    retry_after: str | None
    error_body: ErrorBody | None = None
    headers: Mapping[str, str] = {}  # what the client is told of a translation


class WholeAnswer(Struct, frozen=True):
    """A complete answer, not streamed."""

    body: bytes
    meter: Meter
    headers: Mapping[str, str]


class StreamAnswer(Struct, frozen=True):
    """A stream that has begun: its first events, as bytes for the client, and where more come."""

    first_block: bytes
    response: UpstreamResponse
    blocks: EventBlocks
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    mask: StreamMask


Answer = Refusal | WholeAnswer | StreamAnswer
