"""The members of an images request, as types and as text (spec: Images; Limits).

The types are checked; `ALLOWED` describes them to the client. Other members are forwarded
unchecked.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from channels.dialects.validation import MODEL_CHARACTERS_MAX

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
