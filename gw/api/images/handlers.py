"""POST /v1/images/generations (spec: Images)."""

from __future__ import annotations

from typing import cast

from actors.wallet.unit_pricing import ImagePrice
from channels.dialects.images import ImagesRequest
from channels.dialects.images.dialect import DIALECT
from channels.registry import ModelSpec
from gw.api.base import ApiHandler
from gw.api.call_spans import begin_span
from gw.api.images.bill import ImageBill, UnknownArea
from gw.api.media_services import MediaServices
from gw.api.model_call import ModelCall, require_served
from gw.api.submit import guarded, submission_of
from gw.calls.media import MediaCall, SyncMediaRequest
from gw.errors.table import INVALID_REQUEST, GatewayError
from gw.idempotency.submission import Submission
from metrics import genai


class ImagesHandler(ApiHandler):
    """One call for images."""

    shape = DIALECT.family.error_shape
    route = "images"
    protocol = DIALECT.protocol
    limited = billed = idempotent = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        submission = await submission_of(call)
        request = await call.read(DIALECT)
        require_served(call.model, self.protocol)
        sync_media = cast(MediaServices, self.settings["media"]).images
        media_call = self._call(request, call, submission)
        await guarded(call, submission, lambda writer: sync_media.run(media_call, writer))

    def _call(
        self, request: ImagesRequest, call: ModelCall, submission: Submission | None
    ) -> MediaCall:
        model = call.model
        upstream_request = SyncMediaRequest(
            request,
            protocol=self.protocol,
            body=self.request.body,
            weight=call.weight,
            offload=self.services.offload,
        )
        return MediaCall(
            facts=call.facts(),
            model=model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            bill=_bill(request, model),
            cheaper="or ask for fewer or smaller images.",
            span=begin_span(self, model, lambda: {genai.OUTPUT_TYPE: "image"}),
            request=upstream_request,
            started=self.services.clock.monotonic(),
            submission=submission,
            detail=call.detail,
        )


def _bill(request: ImagesRequest, model: ModelSpec) -> ImageBill:
    try:
        return ImageBill(request, ImagePrice.of(model.price, model.multiplier))
    except UnknownArea:
        raise GatewayError(
            INVALID_REQUEST,
            f"size: the price of `{model.id}` depends on the area; expected a size in pixels such "
            "as 1024x1024, or none.",
            param="size",
        ) from None
