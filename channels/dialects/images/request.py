"""Read an images request, and make of it the body an upstream is sent.

The client's bytes are kept: only the model's name is edited in. `size` goes on as it is, in
whichever words (spec: Images). The members' types are in `schema.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from channels.dialects.images.schema import ALLOWED, ImagesBody
from channels.dialects.parameters import counts, settings
from channels.dialects.validate import check_model, lookalikes_of, read_body
from channels.errors import InvalidRequest
from channels.json.members import NOTHING, JsonObject

_DECODER = msgspec.json.Decoder(ImagesBody)
_NAMES = lookalikes_of(ImagesBody.__struct_fields__)

# Of the parameters for the call log; the rest are other makers' own.
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
    """A checked request, and what the gateway needs to know of it.

    `parameters` is what the call log shows.
    """

    object: JsonObject
    model: str
    size: str | None
    count: int  # `n`
    references: int  # reference images
    parameters: Mapping[str, str]


def read_request(body: bytes) -> ImagesRequest:
    """Check a request body. Raises InvalidRequest naming the member at fault."""
    members, read = read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    if not read.prompt.strip():
        raise InvalidRequest("prompt: expected a string that describes the image.", "prompt")
    if read.stream:
        # What comes as a stream of parts cannot be counted, and here images come whole.
        raise InvalidRequest(
            "stream: images are not streamed here; leave it out or send false.", "stream"
        )
    prompt = msgspec.json.decode(members.raw["prompt"], type=str)  # all of it, to be counted
    return ImagesRequest(
        object=members,
        model=check_model(read.model),
        size=read.size,
        count=1 if read.n is None else read.n,
        references=len(read.image or ()),
        parameters=settings(members.raw, _SETTINGS)
        | counts(prompt_characters=len(prompt), reference_images=len(read.image or ())),
    )


def upstream_body(request: ImagesRequest, *, upstream_model: str) -> bytes:
    """The client's body as one channel wants it; the same bytes when nothing has to change."""
    if request.model == upstream_model:
        return request.object.body
    return request.object.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})


def without_body(request: ImagesRequest) -> ImagesRequest:
    """The request with nothing in it that grows with its body."""
    return replace(request, object=NOTHING)
