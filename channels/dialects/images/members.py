"""The members of an images request, each declared once (reference 7.9).

Other members are forwarded unchecked. `ALLOWED` has the words of each.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from channels.dialects import common_members as common
from channels.dialects.member import member
from channels.dialects.member_words import words_of

# Of `n`, and of reference images (reference 7.9).
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

    model: common.Model
    prompt: Annotated[
        str,
        Meta(min_length=1),
        member("What to draw.", words="a string that describes the image"),
    ]
    size: Annotated[
        Annotated[str, Meta(min_length=1, max_length=SIZE_CHARACTERS_MAX)] | None,
        member("Width and height in pixels.", words="a string such as 1024x1024"),
    ] = None
    n: Annotated[
        Annotated[int, Meta(ge=1, le=IMAGES_MAX)] | None, member("The number of images.")
    ] = None
    image: Annotated[
        Annotated[list[_Reference], Meta(min_length=1, max_length=REFERENCES_MAX)] | None,
        member(
            "Images to start from.",
            words=f"an array of 1 to {REFERENCES_MAX} reference-image URLs",
            each="an http or https URL of an image",
        ),
    ] = None
    response_format: Annotated[
        Literal["url", "b64_json"] | None,
        member("The form of the images.", words="url or b64_json"),
    ] = None
    stream: Annotated[bool | None, member("Refused if true: images come complete.")] = None


ALLOWED = words_of(ImagesBody)
