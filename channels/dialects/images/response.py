"""Read what an images upstream made: how many images, where they are, how large.

The body goes to the client as it came; this only counts. An image is an entry of `data` with a
link or a picture in it: upstreams put other entries beside them, such as the error of one that
could not be made. `usage.generated_images` is not asked: what counts is what the client receives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from channels.dialects.error_body import message_in
from channels.dialects.images.size import pixels_of
from channels.errors import UpstreamMalformed
from channels.json.lenient import raw_of, read_loosely
from channels.json.outline import outline

_NULL = Raw(b"null")


class _Entry(Struct, gc=False):
    url: Raw = _NULL
    b64_json: Raw = _NULL
    size: Raw = _NULL


# The pictures stay where they are in the body: a large one is stepped over, not copied.
_Odd = str | float | bool | None


class _Body(Struct, gc=False):
    data: list[_Entry | list[Raw] | _Odd] | dict[str, Raw] | _Odd | UnsetType = UNSET
    model: Raw = _NULL
    error: Raw = _NULL


_DECODER = msgspec.json.Decoder(_Body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """One image: its link if it has one, and its area in pixels if the upstream states it."""

    url: str | None
    pixels: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesResponse:
    """What a response holds; `error` is the upstream's message where it says that it failed."""

    images: Sequence[Image]
    model: str | None
    error: str | None


def parse_response(body: bytes) -> ImagesResponse:
    """Count a response. Raises UpstreamMalformed for what is not of the images shape.

    The pictures in it are stepped over (`channels/json/outline.py`), and not looked at.
    """
    response = _read(outline(body))
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
    """Read strictly, which is fast; what that cannot read, a broken emoji say, by milder rules."""
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = read_loosely(body, mends=False)
    try:
        return _DECODER.decode(raw_of(value))
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamMalformed(f"an images answer that cannot be read: {error}") from error


def _image(entry: _Entry) -> Image | None:
    url = _text(entry.url)
    if url is None and not _is_text(entry.b64_json):
        return None
    size = _text(entry.size)
    return Image(url=url, pixels=None if size is None else pixels_of(size))


def _is_text(raw: Raw) -> bool:
    """Is this a string with something in it? Told without reading it."""
    view = memoryview(raw)
    return len(view) > 2 and view[0] == ord('"')


def _text(raw: Raw) -> str | None:
    if not _is_text(raw):
        return None
    value = _value(raw)
    return value if isinstance(value, str) else None


def _value(raw: Raw) -> Any:
    """A JSON value; None for what cannot be read."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
