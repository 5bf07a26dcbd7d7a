"""Edits of images: a form with the images, on the path beside that of generations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.dialects import multipart
from channels.dialects.address import Address
from channels.dialects.images import members
from channels.dialects.images.dialect import DIALECT
from channels.dialects.images.request import COUNTS, SETTINGS, most_of
from channels.dialects.logged_parameters import counts
from channels.errors import InvalidRequest
from channels.registry import ChannelSpec


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _EditsAddress(Address):
    def base(self, channel: ChannelSpec, protocol: str) -> str:
        return Address.base(self, channel, protocol).removesuffix("/generations") + "/edits"


EDITS = _EditsAddress(path=DIALECT.address.path, accept="application/json")
_PICTURES = ("image", "image[]")
# The parts of the form, for the reference.
FORM: Mapping[str, Any] = {
    "type": "object",
    "description": "The parts that the gateway reads; others are forwarded.",
    "required": ["model", "prompt", "image"],
    "properties": {
        **{
            name: {"type": "string", "description": f"{members.ALLOWED[name].capitalize()}."}
            for name in ("model", "prompt", "size", "n", "response_format", "stream")
        },
        "image": {
            "type": "array",
            "description": f"1 to {members.REFERENCES_MAX} files, as `image` or `image[]`.",
            "items": {"type": "string", "contentMediaType": "application/octet-stream"},
            "minItems": 1,
            "maxItems": members.REFERENCES_MAX,
        },
    },
    "additionalProperties": True,
}
_EDITS_NAMES = SETTINGS.union(members.ImagesBody.__struct_fields__, _PICTURES, COUNTS)


class EditsRequest(multipart.FormRequest, frozen=True, kw_only=True):
    """A checked form for edits, like `ImagesRequest`."""

    size: str | None
    count_max: int  # `n`, or as many as other texts ask for
    references: int  # the images in it


def read_edits(body: bytes, content_type: str | None) -> EditsRequest:
    """Parse a form for edits. Raises InvalidRequest with the part at fault."""
    form = multipart.read_form(body, content_type, _EDITS_NAMES)
    model, texts = multipart.model_of(form), form.texts
    pictures = form.files(*_PICTURES)
    if not 1 <= len(pictures) <= members.REFERENCES_MAX or not all(one.size for one in pictures):
        expected = f"expected 1 to {members.REFERENCES_MAX} files with a picture in each"
        raise InvalidRequest(f"image: {expected}.", "image")
    if not texts.get("prompt", "").strip():
        raise InvalidRequest("prompt: expected a text that describes the image.", "prompt")
    count = texts.get("n", "1")
    if not _COUNT.fullmatch(count) or not 1 <= int(count) <= members.IMAGES_MAX:
        raise InvalidRequest(f"n: expected {members.ALLOWED['n']}.", "n")
    if texts.get("stream", "false") != "false":
        raise InvalidRequest(
            "stream: images are not streamed here; leave it out or send false.", "stream"
        )
    size = texts.get("size") or None
    if size is not None and len(size) > members.SIZE_CHARACTERS_MAX:
        raise InvalidRequest(f"size: expected {members.ALLOWED['size']}.", "size")
    return EditsRequest(
        form=form,
        model=model,
        size=size,
        count_max=most_of(int(count), (texts[name] for name in COUNTS & texts.keys())),
        references=len(pictures),
        parameters=multipart.settings_of(form, SETTINGS)
        | counts(prompt_characters=len(texts["prompt"]), reference_images=len(pictures)),
    )


_COUNT = re.compile(r"\d{1,3}", re.ASCII)
