"""A media call as its endpoint makes it, and what is delivered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from actors.routing import Candidate
from channels.media.replies import Accepted, Done
from channels.media.requests import Submission
from gw.calls.bills import Bill, ReadBill
from gw.calls.call import Call
from gw.calls.offloading import LargeSubmission
from gw.calls.request import PieceRequest

JSON = "application/json"


class Pin(Struct, frozen=True):
    """The only channel that knows an object named by the request; `param` is the naming field."""

    channel_id: str
    param: str


class SubmitResult(Struct, frozen=True):
    """The reply of the channel that accepted the request."""

    candidate: Candidate
    reply: Accepted | Done


class Delivery(Struct, frozen=True):
    """The response to the client; `failed` is the upstream's message if it reports a failure."""

    content_type: str
    body: bytes
    http_status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})
    failed: str | None = None

    def __repr__(self) -> str:
        return f"<Delivery {self.http_status} {self.content_type} {len(self.body)} bytes>"


class MediaCall(Call, frozen=True, kw_only=True):
    """A media call."""

    bill: Bill
    pins: tuple[Pin, ...] = ()


class PieceCall(MediaCall, frozen=True, kw_only=True):
    """A call that passes the upstream's response through; `content_type` None: the upstream's.

    `render` makes the client's response of one that was read, None: it is the same.
    """

    bill: ReadBill
    request: PieceRequest
    content_type: str | None = JSON
    render: Callable[[bytes], bytes] | None = None


class SubmitCall(MediaCall, frozen=True, kw_only=True):
    """A call whose result is made by the exchanges of a media dialect.

    `large` holds the client's body if `request` does not. `deliver` renders the client's response
    and stores the parts to be kept; if it fails, nothing is charged.
    """

    request: Submission
    deliver: Callable[[SubmitResult], Awaitable[Delivery]]
    large: LargeSubmission | None = None

    @property
    def upstream_key(self) -> str:
        """The idempotency key sent to the upstream: the id of the job or result, or the call's."""
        return self.facts.job_id or self.facts.made_id or self.facts.call_id.hex
