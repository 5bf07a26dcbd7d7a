"""POST /v1/decisions: typed questions about one input, where a model for them is configured."""

from __future__ import annotations

from actors.wallet.bounds import LINKED_TOKENS
from channels.dialects.decisions import dialect as decisions
from channels.dialects.token_counts import Usage
from gw.api.measured import MeasuredHandler
from gw.api.media_submit import media_of
from gw.api.model_call import ModelCall
from gw.calls.measured import Amount, MeasuredBill, as_stated, no_units
from gw.calls.media import Media
from gw.calls.media_calls import PieceCall
from gw.calls.token_charge import tokens_of_bytes


class DecisionsHandler(MeasuredHandler):
    """Answers questions by probabilities (reference 2.11)."""

    @property
    def pieces(self) -> Media[PieceCall]:
        return media_of(self).decisions

    async def on_post(self) -> None:
        call = ModelCall(self)
        request: decisions.DecisionRequest = await call.read_request(decisions.DIALECT)
        call.require_served()
        tokens = tokens_of_bytes(request.input_bytes)
        amount = Amount(quantity=0, usage=Usage(input_tokens=tokens, output_tokens=0))
        bill = MeasuredBill(
            call.model,
            most=amount,
            reading=as_stated(decisions.read_response),
            units_of=no_units,
            # No token is shorter than a byte; images may be links.
            tokens_max=request.input_bytes + LINKED_TOKENS,
        )
        cheaper = "or send a shorter input."
        await self.run(call, self.piece(call, request), bill, cheaper=cheaper)
