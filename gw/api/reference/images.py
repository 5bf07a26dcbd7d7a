"""Images, in the reference."""

from __future__ import annotations

from typing import Any

from channels.dialects.images import edits, members
from gw import errors
from gw.api.reference.bodies import open_body
from gw.api.reference.operation import Operation, answers

TAG = "Images"
_MADE: dict[str, Any] = {
    "type": "object",
    "description": "The upstream's own response.",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "array",
            "description": "The images: `url`, a link of about a day, or `b64_json`, and `size`.",
            "items": {"type": "object"},
        },
        "created": {"type": "integer", "description": "When they were made, in Unix seconds."},
        "model": {"type": "string", "description": "The model, as its channel names it."},
        "usage": {"type": "object", "description": "What the upstream counted."},
    },
    "additionalProperties": True,
}
_RAISED = (errors.MODEL_NOT_FOUND, errors.MODEL_NOT_ALLOWED, errors.QUOTA_EXCEEDED)

GENERATIONS = (
    Operation(
        name="create_image",
        tag=TAG,
        method="POST",
        summary="Make images.",
        description="The price is held for `n` images, and charged for those that came. An"
        " upstream's refusal is passed on as it is, and costs nothing.",
        body=(open_body(members.ImagesBody, name="ImagesBody", words=members.ALLOWED),),
        examples={
            "images": {"model": "demo-picture", "prompt": "A boat in the harbour", "n": 2},
        },
        responses=answers(_MADE, "The images."),
        raises=_RAISED,
        timeout="image_total",
        passes_bodies=True,
    ),
)
EDITS = (
    Operation(
        name="edit_image",
        tag=TAG,
        method="POST",
        summary="Change images.",
        description="A form with the images; its other parts are those of a generation.",
        body=(edits.FORM,),
        responses=answers(_MADE, "The images."),
        raises=_RAISED,
        timeout="image_total",
        passes_bodies=True,
    ),
)
