"""The images dialect: requests, responses counted in images, and its record (spec: Images)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from channels.dialects.dialect import Address, Dialect, model_option, renamed_body
from channels.dialects.error_body import message_in
from channels.dialects.multipart import FormRequest, model_of, read_form, settings_of
from channels.dialects.validate import (
    MODEL_CHARACTERS_MAX,
    check_model,
    counts,
    lookalikes_of,
    read_body,
    settings,
)
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.families import IMAGES
from channels.json.json_object import NOTHING, JsonObject
from channels.json.lenient import raw_of, read_loosely
from channels.json.outline import outline
from channels.registry import ChannelSpec

# The members of an images request, as types and as text (spec: Images; Limits).
#
# The types are checked; `ALLOWED` describes them to the client. Other members are forwarded
# unchecked.

# Spec, Limits: image count `n`, and image reference images.
IMAGES_MAX = 10
REFERENCES_MAX = 10
# `WxH`, or another size of the upstream's own.
SIZE_CHARACTERS_MAX = 64

# The URL of an image, or an image as a data URL. Only the upstream fetches it.
_Reference = Annotated[
    str, Meta(pattern=r"^([hH][tT][tT][pP][sS]?://[^\s/?#]+\S*|data:image/[\w.+-]+;base64,\S+)$")
]


class ImagesBody(Struct, gc=False):
    """The members that the gateway parses."""

    model: Annotated[str, Meta(min_length=1, max_length=MODEL_CHARACTERS_MAX)]
    prompt: Annotated[str, Meta(min_length=1)]
    size: Annotated[str, Meta(min_length=1, max_length=SIZE_CHARACTERS_MAX)] | None = None
    n: Annotated[int, Meta(ge=1, le=IMAGES_MAX)] | None = None
    image: Annotated[list[_Reference], Meta(min_length=1, max_length=REFERENCES_MAX)] | None = None
    response_format: Literal["url", "b64_json"] | None = None
    stream: bool | None = None


ALLOWED = {
    "model": f"a string of 1 to {MODEL_CHARACTERS_MAX} characters",
    "prompt": "a string that describes the image",
    "size": "a string such as 1024x1024",
    "n": f"an integer from 1 to {IMAGES_MAX}",
    "image": f"an array of 1 to {REFERENCES_MAX} reference-image URLs",
    "image[]": "an http or https URL of an image",
    "response_format": "url or b64_json",
    "stream": "a boolean",
}


# Parses an images request, and makes the upstream's body of it.
#
# The client's bytes are kept, except for the model's name. `size` is forwarded unchanged (spec:
# Images).

_DECODER = msgspec.json.Decoder(ImagesBody)
_NAMES = lookalikes_of(ImagesBody.__struct_fields__)

# The parameters for the call log; other members belong to single providers.
_SETTINGS = frozenset(
    (
        "n",
        "size",
        "response_format",
        "quality",
        "style",
        "background",
        "output_format",
        "seed",
        "guidance_scale",
        "watermark",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesRequest:
    """A checked request; `parameters`: those of the call log."""

    object: JsonObject
    model: str
    size: str | None
    count: int  # `n`
    references: int  # reference images
    parameters: Mapping[str, str]


def read_request(body: bytes) -> ImagesRequest:
    """Parse a request body. Raises InvalidRequest with the member at fault."""
    members, read = read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    if not read.prompt.strip():
        raise InvalidRequest("prompt: expected a string that describes the image.", "prompt")
    if read.stream:
        # A stream of parts cannot be counted, and the gateway returns images complete.
        raise InvalidRequest(
            "stream: images are not streamed here; leave it out or send false.", "stream"
        )
    prompt = msgspec.json.decode(members.raw["prompt"], type=str)  # complete, to be counted
    return ImagesRequest(
        object=members,
        model=check_model(read.model),
        size=read.size,
        count=1 if read.n is None else read.n,
        references=len(read.image or ()),
        parameters=settings(members.raw, _SETTINGS)
        | counts(prompt_characters=len(prompt), reference_images=len(read.image or ())),
    )


def without_body(request: ImagesRequest) -> ImagesRequest:
    """Return the request without its body."""
    return replace(request, object=NOTHING)


DIALECT = Dialect(
    family=IMAGES,
    address=Address(path="/v1/images/generations", accept="application/json"),
    read_request=read_request,
    upstream_body=renamed_body,
    without_body=without_body,
    options=model_option,
)


# Edits of images: a form with the images, on the path beside that of generations.


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _EditsAddress(Address):
    def base(self, channel: ChannelSpec, protocol: str) -> str:
        return Address.base(self, channel, protocol).removesuffix("/generations") + "/edits"


EDITS = _EditsAddress(path=DIALECT.address.path, accept="application/json")
_PICTURES = ("image", "image[]")
_EDITS_NAMES = _SETTINGS.union(ImagesBody.__struct_fields__, _PICTURES)


class EditsRequest(FormRequest, frozen=True, kw_only=True):
    """A checked form for edits, like `ImagesRequest`."""

    size: str | None
    count: int  # `n`
    references: int  # the images in it


def read_edits(body: bytes, content_type: str | None) -> EditsRequest:
    """Parse a form for edits. Raises InvalidRequest with the part at fault."""
    form = read_form(body, content_type, _EDITS_NAMES)
    model, texts = model_of(form), form.texts
    pictures = form.files(*_PICTURES)
    if not 1 <= len(pictures) <= REFERENCES_MAX or not all(one.size for one in pictures):
        expected = f"expected 1 to {REFERENCES_MAX} files with a picture in each"
        raise InvalidRequest(f"image: {expected}.", "image")
    if not texts.get("prompt", "").strip():
        raise InvalidRequest("prompt: expected a text that describes the image.", "prompt")
    count = texts.get("n", "1")
    if not _COUNT.fullmatch(count) or not 1 <= int(count) <= IMAGES_MAX:
        raise InvalidRequest(f"n: expected {ALLOWED['n']}.", "n")
    if texts.get("stream", "false") != "false":
        raise InvalidRequest(
            "stream: images are not streamed here; leave it out or send false.", "stream"
        )
    size = texts.get("size") or None
    if size is not None and len(size) > SIZE_CHARACTERS_MAX:
        raise InvalidRequest(f"size: expected {ALLOWED['size']}.", "size")
    return EditsRequest(
        form=form,
        model=model,
        size=size,
        count=int(count),
        references=len(pictures),
        parameters=settings_of(form, _SETTINGS)
        | counts(prompt_characters=len(texts["prompt"]), reference_images=len(pictures)),
    )


_COUNT = re.compile(r"\d{1,3}", re.ASCII)


# The size of an image in the protocol: `WxH` in pixels.

_SIZE = re.compile(r"(\d{1,6})[xX](\d{1,6})", re.ASCII)


def pixels_of(size: str) -> int | None:
    """Return the area of a `WxH` size in pixels; None for any other form."""
    found = _SIZE.fullmatch(size)
    return int(found[1]) * int(found[2]) or None if found else None


# Parses an images response: the number, links and sizes of the images.
#
# The client gets the body as received; it is only counted here. An image is an entry of `data` with
# a link or image data: upstreams add other entries, such as the error of an image that failed.
# `usage.generated_images` is ignored: the charge is for the images that the client receives.

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
