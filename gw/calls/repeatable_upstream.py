"""One attempt of embeddings or decisions: a piece whose failures count like those of a chat call.

They cost nothing until they are read, so every failure leads to the next channel; a refusal of the
channel's key does, too. An upstream's error has the endpoint's own shape.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.clock import Clock
from channels.errors import UpstreamError, UpstreamMalformed, UpstreamRefusal
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.json.weight import COUNTED_BYTES_MAX
from channels.offload.pool import OffloadFailed, OffloadFull, OffloadPool
from channels.offload.process import JobTooLong
from gw.calls.base_upstream import of_request
from gw.calls.measured import Measured, MeasuredBill
from gw.calls.media_calls import PieceCall
from gw.calls.piece_upstream import PieceUpstream
from gw.calls.retry import Retry, retry_of_chat
from gw.config.live import LiveConfig

# Only the message of an error body is used.
ERROR_BYTES_MAX = 256 * 1024


class RepeatableUpstream(PieceUpstream):
    """Makes the attempts of calls that may be repeated; `offload` reads long responses."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        attempt_seconds: float,
        response_bytes_max: int,
        offload: OffloadPool,
    ) -> None:
        super().__init__(
            http=http,
            current=current,
            clock=clock,
            attempt_seconds=attempt_seconds,
            response_bytes_max=response_bytes_max,
        )
        self._offload = offload

    def retry(self, error: UpstreamError) -> Retry:
        """See `Upstream`."""
        return retry_of_chat(error)

    async def _refused(
        self, request: UpstreamRequest, response: UpstreamResponse
    ) -> UpstreamRefusal:
        return of_request(await self._refusal(request, response, bytes_max=ERROR_BYTES_MAX))

    async def _read(self, call: PieceCall, body: bytes) -> str | None:
        bill = call.bill
        if len(body) <= COUNTED_BYTES_MAX or not isinstance(bill, MeasuredBill):
            return await super()._read(call, body)
        helpers = self._offload.of(call.facts.account_id)
        try:
            measured, _ = await helpers.run(measured_in, body, bill.reading)
        except JobTooLong as error:
            raise UpstreamMalformed("an answer that takes too long to be read") from error
        except (OffloadFull, OffloadFailed) as error:
            raise UpstreamMalformed(
                f"an answer that is too large to be read now: {error}"
            ) from error
        return bill.take(measured)


def measured_in(body: bytes, reading: Callable[[bytes], Measured]) -> tuple[Measured, None]:
    """Return what a response states: a job for a helper process. Raises UpstreamMalformed."""
    return reading(body), None
