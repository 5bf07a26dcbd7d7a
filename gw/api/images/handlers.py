"""POST /v1/images/generations (reference 7.9), and /v1/images/edits beside it."""

from __future__ import annotations

from actors.wallet.piece_prices import ImagePrice
from channels.dialects.images.dialect import DIALECT
from channels.dialects.images.edits import EDITS, read_edits
from channels.dialects.images.request import ImagesRequest
from channels.registry import ModelSpec
from gw.api.call_spans import begin_span
from gw.api.images.bill import AskedImages, ImageBill, UnknownArea
from gw.api.keyed_handler import KeyedHandler, guarded
from gw.api.media_submit import media_of
from gw.api.model_call import ModelCall
from gw.calls.media_calls import PieceCall
from gw.calls.request import FormUpload, PieceRequest
from gw.errors import INVALID_REQUEST, GatewayError
from metrics import genai


class ImagesHandler(KeyedHandler):
    """Generates images."""

    async def on_submit(self, call: ModelCall, /) -> None:
        request = await call.read_request(DIALECT)
        call.require_served()
        pieces = media_of(self).pieces
        image_call = self._call(request, call)
        await guarded(call, self.idempotency, lambda writer: pieces.run_call(image_call, writer))

    def _call(self, request: ImagesRequest, call: ModelCall) -> PieceCall:
        upstream_request = PieceRequest(
            request,
            protocol=self.endpoint.protocol,
            body=self.request.body,
            weight=call.weight,
            helpers=call.helpers,
        )
        bill = _bill(request, call.model)
        return _piece_call(self, call, bill, upstream_request)


class EditsHandler(KeyedHandler):
    """Edits images."""

    async def on_submit(self, call: ModelCall, /) -> None:
        body = self.request.body
        request = await call.read_form(read_edits)
        upload = FormUpload(request, protocol=self.endpoint.protocol, body=body, address=EDITS)
        piece = _piece_call(self, call, _bill(request, call.model), upload)
        pieces = media_of(self).pieces
        await guarded(call, self.idempotency, lambda writer: pieces.run_call(piece, writer))


def _piece_call(
    handler: KeyedHandler,
    call: ModelCall,
    bill: ImageBill,
    request: PieceRequest,
) -> PieceCall:
    return PieceCall(
        facts=call.facts(),
        model=call.model,
        cap_nano_usd=handler.principal.spend_cap_nano_usd,
        spender=call.spender(),
        demand=call.demand,
        bill=bill,
        cheaper="or ask for fewer or smaller images.",
        span=begin_span(handler, call.model, lambda: {genai.OUTPUT_TYPE: "image"}),
        request=request,
        started=handler.services.clock.monotonic(),
        idempotency=handler.idempotency,
        detail=call.detail,
    )


def _bill(request: AskedImages, model: ModelSpec) -> ImageBill:
    try:
        return ImageBill(request, ImagePrice.of(model.price, model.multiplier))
    except UnknownArea:
        raise GatewayError(
            INVALID_REQUEST,
            f"size: the price of `{model.id}` depends on the area; expected a size in pixels such "
            "as 1024x1024, or none.",
            param="size",
        ) from None
