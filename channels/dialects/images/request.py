"""Parses an images request, and makes the upstream's body of it.

The client's bytes are kept, except for the model's name. `size` is forwarded unchanged (reference
7.9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from channels.dialects.images.members import ALLOWED, ImagesBody
from channels.dialects.logged_parameters import counts, settings
from channels.dialects.validation import check_model, lookalikes_of, read_body
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject

# Members of single providers by which a request may get more images than `n`: a number, or a series
# of as many as the prompt needs (Ark's, up to the number in its options).
COUNTS = frozenset(
    (
        *("batch_size", "max_images", "num_images", "num_images_per_prompt", "num_outputs"),
        *("number_of_images", "number_results"),
    )
)
SERIES, SERIES_OPTIONS = "sequential_image_generation", "sequential_image_generation_options"
# The longest series, where its request does not say.
SERIES_IMAGES = 15
# More than any provider makes at once: a greater number is refused upstream.
COUNT_MAX = 100

_DECODER = msgspec.json.Decoder(ImagesBody)
_NAMES = lookalikes_of({*ImagesBody.__struct_fields__, *COUNTS, SERIES, SERIES_OPTIONS})

# The parameters for the call log; other members belong to single providers.
SETTINGS = frozenset(
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
    count_max: int  # `n`, or as many as its other members ask for
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
        count_max=_count_max(1 if read.n is None else read.n, members.raw),
        references=len(read.image or ()),
        parameters=settings(members.raw, SETTINGS)
        | counts(prompt_characters=len(prompt), reference_images=len(read.image or ())),
    )


def _count_max(count: int, raw: Mapping[str, msgspec.Raw]) -> int:
    asked = [bytes(raw[name]) for name in COUNTS & raw.keys()]
    if bytes(raw.get(SERIES, b"null")) not in (b"null", b'"disabled"'):
        options = _OPTIONS.findall(bytes(raw.get(SERIES_OPTIONS, b"")))
        asked += options or [b"%d" % SERIES_IMAGES]
    return most_of(count, (text.decode() for text in asked))


# However the object is written: of two such members the greater one counts.
_OPTIONS = re.compile(rb'"max_images"\s*:\s*([^\s,}]{1,20})')


def most_of(count: int, asked: Iterable[str]) -> int:
    """Return the greatest of `n` and of the other numbers that a request states."""
    return max(count, *map(_number_of, asked), 1)


def _number_of(text: str) -> int:
    if len(text) > _NUMBER_CHARACTERS_MAX:
        return COUNT_MAX
    try:
        return int(min(max(float(text.strip('"')), 0), COUNT_MAX))
    except ValueError:  # no number, or NaN
        return 0


_NUMBER_CHARACTERS_MAX = 100


_SIZE = re.compile(r"(\d{1,6})[xX](\d{1,6})", re.ASCII)


def pixels_of(size: str) -> int | None:
    """Return the area of a `WxH` size in pixels; None for any other form."""
    found = _SIZE.fullmatch(size)
    return int(found[1]) * int(found[2]) or None if found else None
