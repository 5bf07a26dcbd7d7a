"""Parses an images response: the number, links and sizes of the images.

The client gets the body as received; it is only counted here. An image is an entry of `data` with
a link or image data: upstreams add other entries, such as the error of an image that failed.
`usage.generated_images` is ignored: the charge is for the images that the client receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from channels.dialects.error_body import message_in
from channels.dialects.images.request import pixels_of
from channels.errors import UpstreamMalformed
from channels.json.lenient import raw_of, read_loosely
from channels.json.outline import outline
from channels.json.weight import is_heavy_event

_NULL = Raw(b"null")


class _Entry(Struct, gc=False):
    url: Raw = _NULL
    b64_json: Raw = _NULL
    size: Raw = _NULL


# Large image data is skipped, not copied: it stays in the body.
_Odd = str | float | bool | None


class _Body(Struct, gc=False):
    data: list[_Entry | list[Raw] | _Odd] | dict[str, Raw] | _Odd | UnsetType = UNSET
    model: Raw = _NULL
    error: Raw = _NULL


_RESPONSE_DECODER = msgspec.json.Decoder(_Body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image: its link, if any, and its area in pixels, if the upstream states it."""

    url: str | None
    pixels: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesResponse:
    """What a response contains; `error`: the upstream's message, if it reports a failure."""

    images: Sequence[Image]
    model: str | None
    error: str | None


def parse_response(body: bytes) -> ImagesResponse:
    """Count a response. Raises UpstreamMalformed for any other form.

    Image data is skipped (`channels/json/outline.py`).
    """
    rough = outline(body)
    if is_heavy_event(rough):
        raise UpstreamMalformed("an images answer with too many values")
    response = _read(rough)
    failed = _value(response.error)
    if not isinstance(response.data, list):
        if failed is None:
            raise UpstreamMalformed("an images answer without data")
        response.data = []
    found = [_image(entry) for entry in response.data if isinstance(entry, _Entry)]
    images = [image for image in found if image is not None]
    error = None
    if failed is not None and not images:
        error = message_in(failed) or "The upstream reported an error within its answer."
    return ImagesResponse(images=images, model=_text(response.model), error=error)


def _read(body: bytes) -> _Body:
    """Decode strictly, which is fast; then what that rejects, such as a broken emoji, loosely."""
    try:
        return _RESPONSE_DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = read_loosely(body, mends=False)
    try:
        return _RESPONSE_DECODER.decode(raw_of(value))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamMalformed(f"an images answer that cannot be read: {error}") from error


def _image(entry: _Entry) -> Image | None:
    url = _text(entry.url)
    if url is None and not _is_text(entry.b64_json):
        return None
    size = _text(entry.size)
    return Image(url=url, pixels=None if size is None else pixels_of(size))


def _is_text(raw: Raw) -> bool:
    """Whether this is a non-empty string, without decoding it."""
    view = memoryview(raw)
    return len(view) > 2 and view[0] == ord('"')


def _text(raw: Raw) -> str | None:
    if not _is_text(raw):
        return None
    value = _value(raw)
    return value if isinstance(value, str) else None


def _value(raw: Raw) -> Any:
    """Return a JSON value; None if it cannot be decoded."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
