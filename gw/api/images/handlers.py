"""POST /v1/images/generations (spec: Images)."""

from __future__ import annotations

from typing import cast

from actors.wallet.unit_pricing import ImagePrice
from channels.dialects import images
from channels.dialects.images import ImagesRequest
from channels.dialects.images.dialect import DIALECT
from channels.registry import ModelSpec
from gw.api.images.bill import ImageBill, UnknownArea
from gw.api.media_services import MediaServices
from gw.api.submit import SubmitHandler
from gw.calls.media import MediaCall, MediaRequest
from gw.calls.models import require_served
from gw.errors.table import INVALID_REQUEST, GatewayError
from gw.idempotency.submission import Submission
from metrics import genai
from metrics.tracing import CallSpan


class ImagesHandler(SubmitHandler):
    """One call for images."""

    shape = DIALECT.family.error_shape
    route = "images"
    protocol = DIALECT.protocol

    async def on_post(self) -> None:
        is_light = self.is_light()
        submission = await self.submission()
        if is_light:
            request = self.read(lambda: images.read_request(self.request.body))
        else:
            request = await self.read_elsewhere()
        require_served(self._model, self.protocol)
        sync_media = cast(MediaServices, self.settings["media"]).images
        call = self._call(request, self._model, submission)
        await self.guarded(submission, lambda writer: sync_media.run(call, writer))

    def _call(
        self, request: ImagesRequest, model: ModelSpec, submission: Submission | None
    ) -> MediaCall:
        upstream_request = MediaRequest(
            request,
            protocol=self.protocol,
            body=self.request.body,
            weight=self.weight,
            offload=self.services.offload,
        )
        return MediaCall(
            facts=self.facts(),
            model=model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            bill=_bill(request, model),
            cheaper="or ask for fewer or smaller images.",
            span=self._span(model),
            request=upstream_request,
            started=self.services.clock.monotonic(),
            submission=submission,
            detail=self._detail,
        )

    def _span(self, model: ModelSpec) -> CallSpan:
        return self.services.tracing.start_call(
            name="gw.images.generate",
            traceparent=self.request.headers.get("traceparent"),
            attributes=lambda: {
                genai.OPERATION_NAME: "generate_content",
                genai.OUTPUT_TYPE: "image",
                genai.PROVIDER_NAME: model.owned_by,
                genai.REQUEST_MODEL: model.id,
                "gw.protocol": self.protocol,
                "gw.call": self.call_id.hex,
                "gw.account": self.principal.account_id,
            },
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
