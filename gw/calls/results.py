"""What one attempt can bring back: a response whole, a response as a stream, a refusal, a failure.

Values only; how they come about is `chat_upstream.py` and
`media.py`, what they mean for the call `outcome.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from channels.dialects.dialect import Meter
from channels.errors import ErrorBody, ErrorMembers, UnexpectedStatus
from channels.exact_redaction import StreamRedaction
from channels.http.interfaces import UpstreamResponse
from gw.calls.framing import Framing
from gw.calls.pipeline import StreamPipeline


def is_success(status: int) -> bool:
    """Whether a response stands behind this status, or else an error (4xx, 5xx).

    Raises UnexpectedStatus where it is neither: a redirect is not followed, and nothing is no
    answer (contract §7: A 2xx that cannot be used).
    """
    if 200 <= status < 300 and status != 204:
        return True
    if 400 <= status < 600:
        return False
    raise UnexpectedStatus(status)


class UpstreamRefusal(Struct, frozen=True):
    """The upstream refused the request (4xx): a response, to be passed on.

    `headers` are what the client is told of a translation. `is_rejected`: nothing was asked to be
    made yet, what it was to be made of was refused. `is_of_key`: it was for the channel's key.
    """

    status: int
    members: ErrorMembers
    retry_after: str | None
    error_body: ErrorBody | None = None
    headers: Mapping[str, str] = {}
    is_rejected: bool = False
    is_of_key: bool = False


class CompleteResponse(Struct, frozen=True):
    """A complete response, not streamed."""

    body: bytes
    meter: Meter
    headers: Mapping[str, str]


class StreamedResponse(Struct, frozen=True):
    """A stream that has begun: its first events, as bytes for the client, and where more come."""

    first_chunk: bytes
    response: UpstreamResponse
    pipeline: StreamPipeline
    meter: Meter
    headers: Mapping[str, str]
    framing: Framing
    has_terminator: bool
    redaction: StreamRedaction


ChatResult = UpstreamRefusal | CompleteResponse | StreamedResponse
