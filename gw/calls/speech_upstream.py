"""One attempt for a recording, which fails over as pictures do (contract for media §5, Speech).

A recording is read whole before anything is answered and costs its upstream little: so a connection
that is lost within it is one that was lost before it, and a 504 is a failure like any other.
"""

from __future__ import annotations

from actors.router import Candidate
from channels.errors import (
    ErrorMembers,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
    UpstreamTimedOut,
)
from channels.registry import ChannelSpec
from gw.calls.attempts import Attempts
from gw.calls.exchange_upstream import ExchangeUpstream, Made, SubmitCall
from gw.calls.results import UpstreamRefusal
from gw.calls.retries import Retry, retry_of_pieces


class SpeechUpstream(ExchangeUpstream):
    """Makes the attempts of synchronous speech."""

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_pieces(error)

    async def attempt(
        self, call: SubmitCall, candidate: Candidate, channel: ChannelSpec, attempts: Attempts
    ) -> Made | UpstreamRefusal:
        """Ask one channel. Raises UpstreamError, and TimeoutError when its time is over."""
        try:
            return await super().attempt(call, candidate, channel, attempts)
        except UpstreamCut as error:
            raise UpstreamLost(error.detail) from error
        except UpstreamTimedOut as error:  # said by the upstream: ours is a TimeoutError
            raise UpstreamFailed(504, ErrorMembers()) from error
