"""Parses an images request, and makes the upstream's body of it.

The client's bytes are kept, except for the model's name. `size` is forwarded unchanged (reference
7.9).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from channels.dialects.images.members import ALLOWED, ImagesBody
from channels.dialects.logged_parameters import counts, settings
from channels.dialects.validation import check_model, lookalikes_of, read_body
from channels.errors import InvalidRequest
from channels.json.json_object import NOTHING, JsonObject

_DECODER = msgspec.json.Decoder(ImagesBody)
_NAMES = lookalikes_of(ImagesBody.__struct_fields__)

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
        parameters=settings(members.raw, SETTINGS)
        | counts(prompt_characters=len(prompt), reference_images=len(read.image or ())),
    )


def without_body(request: ImagesRequest) -> ImagesRequest:
    """Return the request without its body."""
    return replace(request, object=NOTHING)


_SIZE = re.compile(r"(\d{1,6})[xX](\d{1,6})", re.ASCII)


def pixels_of(size: str) -> int | None:
    """Return the area of a `WxH` size in pixels; None for any other form."""
    found = _SIZE.fullmatch(size)
    return int(found[1]) * int(found[2]) or None if found else None
