"""POST /v1/rerank: documents in order of what they have to do with a query."""

from __future__ import annotations

from channels.dialects.meter import Usage
from channels.dialects.rerank.dialect import (
    DIALECT,
    DOCUMENTS_PER_SEARCH,
    RerankRequest,
    read_response,
)
from gw.api.base import ApiHandler, HandlerWriter, begin_span
from gw.api.chat import ModelCall, require_served
from gw.api.submit import media_of
from gw.calls.bills import tokens_of_bytes
from gw.calls.measured import Amount, Measured, MeasuredBill
from gw.calls.media import PieceCall
from gw.calls.request import PieceRequest


class RerankHandler(ApiHandler):
    """One query."""

    shape = DIALECT.family.error_shape
    route = "rerank"
    protocol = DIALECT.protocol
    limited = billed = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        request: RerankRequest = await call.read(DIALECT)
        require_served(call.model, self.protocol)
        amount = _amount(request)
        piece = PieceCall(
            facts=call.facts(),
            model=call.model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            bill=MeasuredBill(
                call.model, most=amount, usual=amount, reading=_measured, units_of=_same
            ),
            cheaper="or send fewer or shorter documents.",
            span=begin_span(self, call.model, dict),
            request=PieceRequest(
                request,
                protocol=self.protocol,
                body=self.request.body,
                weight=call.weight,
                helpers=call.helpers,
            ),
            started=self.services.clock.monotonic(),
            detail=call.detail,
        )
        await media_of(self).pieces.run(piece, HandlerWriter(self))


def _amount(request: RerankRequest) -> Amount:
    """Upstreams read the query again with each document."""
    query = tokens_of_bytes(request.query_bytes) * request.documents
    tokens = query + tokens_of_bytes(request.documents_bytes)
    searches = -(-request.documents // DOCUMENTS_PER_SEARCH)
    return Amount(quantity=searches, usage=Usage(input_tokens=tokens, output_tokens=0))


def _measured(body: bytes) -> Measured:
    read = read_response(body)
    usage = None if read.tokens is None else Usage(input_tokens=read.tokens, output_tokens=0)
    return Measured(usage=usage, quantity=read.searches, model=read.model, error=read.error)


def _same(quantity: int) -> int:
    return quantity
