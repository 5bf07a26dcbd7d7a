"""POST /v1/moderations: free, at any balance; its row costs nothing."""

from __future__ import annotations

from channels.dialects.moderations.dialect import DIALECT, failure_in
from gw.api.base import ApiHandler, HandlerWriter, begin_span
from gw.api.chat import ModelCall, first_of, require_served
from gw.api.submit import media_of
from gw.calls.bills import NO_TOKENS
from gw.calls.measured import Amount, Measured, MeasuredBill
from gw.calls.media import PieceCall
from gw.calls.request import PieceRequest

(ENDPOINT_TYPE,) = (one.name for one in DIALECT.family.endpoint_types)
_FREE = Amount(quantity=0, usage=NO_TOKENS)


class ModerationsHandler(ApiHandler):
    """One text or several, and pictures."""

    shape = DIALECT.family.error_shape
    route = "moderations"
    protocol = DIALECT.protocol
    limited = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        path = {"usual": first_of(self.services.current.registry, ENDPOINT_TYPE)}
        request = await call.read(DIALECT, **path)
        require_served(call.model, self.protocol)
        piece = PieceCall(
            facts=call.facts(),
            model=call.model,
            cap_nano_usd=None,
            bill=MeasuredBill(
                call.model, most=_FREE, usual=_FREE, reading=_measured, units_of=_none
            ),
            cheaper="",
            span=begin_span(self, call.model, dict),
            request=PieceRequest(
                request,
                protocol=self.protocol,
                body=self.request.body,
                weight=call.weight,
                helpers=call.helpers,
                path=path,
            ),
            started=self.services.clock.monotonic(),
            detail=call.detail,
        )
        await media_of(self).pieces.run(piece, HandlerWriter(self))


def _measured(body: bytes) -> Measured:
    return Measured(quantity=0, error=failure_in(body))


def _none(quantity: int) -> int:
    return 0
