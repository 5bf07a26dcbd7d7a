"""POST /v1/images/generations (spec: Images), and /v1/images/edits beside it."""

from __future__ import annotations

from typing import Any, Protocol

from actors.wallet.live_calls import Delivered
from actors.wallet.piece_prices import ImagePrice
from channels.dialects.images.dialect import DIALECT
from channels.dialects.images.edits import EDITS, read_edits
from channels.dialects.images.request import ImagesRequest, pixels_of
from channels.dialects.images.response import ImagesResponse, parse_response
from channels.links import is_link, lasts_until
from channels.registry import ModelSpec
from gw.api.call_spans import begin_span
from gw.api.model_call import ModelCall
from gw.api.submit import KeyedHandler, guarded, media_of
from gw.calls.bills import Charged, UpstreamPrice
from gw.calls.media import PieceCall
from gw.calls.request import FormUpload, PieceRequest
from gw.errors import INVALID_REQUEST, GatewayError
from metrics import genai
from metrics.spans import Attributes

# The bill of an images call: held for `n` images, settled for those received (spec: Images).
#
# If the price depends on the area, the requested size decides, and an image reported as larger by
# the upstream costs the higher price too.

# The size of images of a model with two prices if none is requested (spec: Images).
SIZE_DEFAULT = "2048x2048"
# Spec, Limits: image result URL.
LINK_SECONDS = 24 * 3600.0


class AskedImages(Protocol):
    """The members of an images request that the bill depends on."""

    @property
    def size(self) -> str | None: ...

    @property
    def count(self) -> int: ...

    @property
    def references(self) -> int: ...


class UnknownArea(Exception):
    """The price depends on the area, and the requested size has none."""


class ImageBill:
    """Prices one images call."""

    def __init__(self, request: AskedImages, price: ImagePrice) -> None:
        """Raises UnknownArea."""
        self._request = request
        self._price = price
        self._asks_large = _asks_large(request, price)
        self._response: ImagesResponse | None = None
        self._links: list[str] = []
        self._links_end: float | None = None

    def __repr__(self) -> str:
        return f"<ImageBill {self._request.count} asked {self._response!r}>"

    @property
    def hold_nano_usd(self) -> int:
        count = self._request.count
        return self._cost(large=count if self._asks_large else 0, of=count)

    @property
    def terms(self) -> dict[str, Any]:
        return {"price": self._price.stated}

    @property
    def is_complete(self) -> bool:
        return self._response is not None

    def read(self, body: bytes, *, now: float) -> str | None:
        response = parse_response(body)
        self._links = [i.url for i in response.images if i.url is not None and is_link(i.url)]
        self._links_end = lasts_until(self._links, now=now, usual_seconds=LINK_SECONDS)
        self._response = response
        return response.error

    def delivered(self) -> Delivered | None:
        """Return None: the images are sent together, after their settlement."""
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        if self._response is None or first_byte_seconds is None:
            return Charged(cost_nano_usd=0)
        images = self._response.images
        large = sum(self._is_large(image.pixels) for image in images)
        # All received, even beyond `n`: given a prompt for it, some upstreams make a series.
        count = len(images)
        priced = {
            "standard": count - large,
            "large": large,
            "references": self._request.references if count else 0,
        }
        return Charged(
            cost_nano_usd=self._cost(large=large, of=count),
            units=count,
            result_urls=self._links,
            result_expires_at=self._links_end,
            detail={"units": {name: number for name, number in priced.items() if number}},
            upstream={"model": self._response.model, "error": self._response.error},
        )

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        if self._response is None or not self._response.images:
            return 0
        if price is None:
            return None
        try:
            bill = ImageBill(
                self._request, ImagePrice.of(price.model.price, price.model.multiplier)
            )
        except UnknownArea:
            return None
        bill._response = self._response
        return bill.charged(first_byte_seconds=0.0).cost_nano_usd

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        pairs: dict[str, str | int] = {"gw.units": charged.units}
        if self._response is not None and self._response.model is not None:
            pairs[genai.RESPONSE_MODEL] = self._response.model
        return pairs

    def _is_large(self, pixels: int | None) -> bool:
        return self._asks_large or (pixels is not None and self._price.is_large(pixels))

    def _cost(self, *, large: int, of: int) -> int:
        return self._price.cost_nano_usd(
            standard=of - large, large=large, references=self._request.references
        )


def _asks_large(request: AskedImages, price: ImagePrice) -> bool:
    if price.threshold_pixels is None:
        return False
    pixels = pixels_of(request.size or SIZE_DEFAULT)
    if pixels is None:
        raise UnknownArea
    return price.is_large(pixels)


class ImagesHandler(KeyedHandler):
    """Generates images."""

    shape = DIALECT.family.error_shape
    route = "images"
    protocol = DIALECT.protocol

    async def on_submit(self, call: ModelCall, /) -> None:
        request = await call.read(DIALECT)
        call.require_served()
        pieces = media_of(self).pieces
        image_call = self._call(request, call)
        await guarded(call, self.idempotency, lambda writer: pieces.run(image_call, writer))

    def _call(self, request: ImagesRequest, call: ModelCall) -> PieceCall:
        upstream_request = PieceRequest(
            request,
            protocol=self.protocol,
            body=self.request.body,
            weight=call.weight,
            helpers=call.helpers,
        )
        bill = _bill(request, call.model)
        return _piece_call(self, call, bill, upstream_request)


class EditsHandler(KeyedHandler):
    """Edits images."""

    shape = DIALECT.family.error_shape
    route = "image_edits"
    protocol = DIALECT.protocol

    async def on_submit(self, call: ModelCall, /) -> None:
        body = self.request.body
        request = await call.read_form(read_edits)
        upload = FormUpload(request, protocol=self.protocol, body=body, address=EDITS)
        piece = _piece_call(self, call, _bill(request, call.model), upload)
        pieces = media_of(self).pieces
        await guarded(call, self.idempotency, lambda writer: pieces.run(piece, writer))


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
