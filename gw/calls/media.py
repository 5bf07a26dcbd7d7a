"""One media call as the use-case sees it: what a channel is sent, and who reads the response.

The counterpart of `call.py` for endpoints that answer with one whole body and are billed by the
piece. Nothing here knows Tornado.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from actors.router import Candidate
from actors.wallet.messages import CallFacts
from channels.dialects.table import DIALECTS
from channels.http.interfaces import UpstreamRequest
from channels.registry import ChannelSpec, ModelSpec
from gw.calls.bill import Bill
from gw.calls.request import ClientRequest
from gw.idempotency.submission import Submission
from metrics.tracing import CallSpan


class MediaBill(Bill, Protocol):
    """Counts the pieces of a response and prices them."""

    @property
    def hold_nano_usd(self) -> int:
        """What the call costs when it brings everything that was asked for."""

    def read(self, body: bytes, *, now: float) -> str | None:
        """Count a whole response of the upstream, which came at `now` (Unix seconds).

        Returns its message where it says that it failed all the same. Raises UpstreamMalformed.
        """


class SyncMediaRequest(ClientRequest):
    """A checked media request."""

    async def upstream_request(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamRequest:
        """What this channel is sent."""
        model = candidate.upstream_model
        body = await self.passthrough_body({"upstream_model": model})
        return DIALECTS[self.protocol].address.request(
            channel, body, protocol=self.protocol, upstream_model=model, stream=False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaCall:
    """A call that has passed every check except money and channels.

    `content_type` is the response's; None for the one that the upstream states. `cheaper` tells a
    client that is refused for its balance what would cost less. `submission` is there when the
    request has an idempotency key.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    bill: MediaBill
    cheaper: str
    span: CallSpan
    request: SyncMediaRequest
    started: float  # monotonic seconds
    content_type: str | None = "application/json"
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)
