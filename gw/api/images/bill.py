"""The bill of an images call: held for the most images that it requests, settled for those received
(reference 7.9). An upstream's further ones are not charged, and raise an alarm.

If the price depends on the area, the requested size decides, and an image reported as larger by
the upstream costs the higher price too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from actors.wallet.bounds import NONE_DOUBTED
from actors.wallet.piece_prices import ImagePrice
from channels.dialects.images.request import pixels_of
from channels.dialects.images.response import ImagesResponse, parse_response
from channels.links import is_link, lasts_until
from channels.registry import ModelSpec
from gw.calls.bills import Charged, ReadBill
from metrics import genai
from metrics.spans import Attributes

# How long a link lasts that states no end.
LINK_SECONDS = 24 * 3600.0
# The size of images of a model with two prices if none is requested (reference 7.9).
SIZE_DEFAULT = "2048x2048"


class AskedImages(Protocol):
    """The members of an images request that the bill depends on."""

    @property
    def size(self) -> str | None: ...

    @property
    def count_max(self) -> int: ...

    @property
    def references(self) -> int: ...


class UnknownArea(Exception):
    """The price depends on the area, and the requested size has none."""


class ImageBill(ReadBill):
    """Prices one images call."""

    def __init__(self, request: AskedImages, price: ImagePrice) -> None:
        """Raises UnknownArea."""
        self._request = request
        self._price = price
        self._asks_large = _asks_large(request, price)
        self._response: ImagesResponse | None = None
        self._links: list[str] = []
        self._links_end: float | None = None

    @property
    def hold_nano_usd(self) -> int:
        count = self._request.count_max
        return self._cost(large=count if self._asks_large else 0, of=count)

    @property
    def stated_price(self) -> Mapping[str, Any]:
        return self._price.stated

    @property
    def is_complete(self) -> bool:
        return self._response is not None

    def read(self, body: bytes, *, now: float) -> str | None:
        response = parse_response(body)
        images = response.images[: self._request.count_max]
        self._links = [i.url for i in images if i.url is not None and is_link(i.url)]
        self._links_end = lasts_until(self._links, now=now, usual_seconds=LINK_SECONDS)
        self._response = response
        return response.error

    def charged_whole(self) -> Charged:
        assert self._response is not None
        stated, most = len(self._response.images), self._request.count_max
        images = self._response.images[:most]
        large = sum(self._is_large(image.pixels) for image in images)
        count = len(images)
        doubted = {"images": stated} if stated > most else NONE_DOUBTED
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
            detail={
                "units": {name: number for name, number in priced.items() if number},
                **({"doubted": doubted} if doubted else {}),
            },
            doubted=doubted,
            upstream={"model": self._response.model, "error": self._response.error},
        )

    def is_made(self, charged: Charged) -> bool:
        return self._response is not None and bool(self._response.images)

    def cost_at(self, model: ModelSpec, charged: Charged) -> int | None:
        try:
            bill = ImageBill(self._request, ImagePrice.of(model.price, model.multiplier))
        except UnknownArea:
            return None
        bill._response = self._response
        return bill.charged_whole().cost_nano_usd

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        pairs = dict(super().attributes(charged, first_byte_seconds=first_byte_seconds))
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
