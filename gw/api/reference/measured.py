"""Recordings and documents read by a model, in the reference."""

from __future__ import annotations

from typing import Any

from channels.dialects import transcriptions
from channels.dialects.moderations import dialect as moderations
from channels.dialects.rerank import dialect as rerank
from gw import errors
from gw.api.reference import headers
from gw.api.reference.bodies import open_body
from gw.api.reference.operation import Content, Operation, Response, answers

TAG = "Reading"
_RAISED = (errors.MODEL_NOT_FOUND, errors.MODEL_NOT_ALLOWED, errors.QUOTA_EXCEEDED)


def _object(described: str, **members: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "description": described,
        "properties": members,
        "additionalProperties": True,
    }


TRANSCRIPTIONS = (
    Operation(
        name="create_transcription",
        tag=TAG,
        method="POST",
        summary="Write down a recording.",
        description="Never a stream. Billed by what the model's price names: seconds, tokens, or"
        " the call.",
        body=(transcriptions.FORM,),
        responses=(
            Response(
                description="The text, as `response_format` asks for it.",
                contents=(
                    Content(
                        _object(
                            "The text and what the upstream adds.",
                            text={"type": "string", "description": "All that is said."},
                        )
                    ),
                    Content({"type": "string"}, "text/plain"),
                ),
            ),
        ),
        raises=_RAISED,
        timeout="image_total",
        passes_bodies=True,
    ),
)
RERANK = (
    Operation(
        name="rerank",
        tag=TAG,
        method="POST",
        summary="Order documents by how well they fit a query.",
        body=(open_body(rerank.RerankBody, name="RerankBody", words=rerank.ALLOWED),),
        examples={
            "a ranking": {
                "model": "demo-rank",
                "query": "A boat in the harbour",
                "documents": ["Boats lie in the harbour.", "It rains."],
            }
        },
        responses=answers(
            _object(
                "The upstream's own response.",
                results={
                    "type": "array",
                    "description": "The documents: `index`, `relevance_score`.",
                    "items": {"type": "object"},
                },
            ),
            "The order.",
        ),
        raises=_RAISED,
        timeout="image_total",
        passes_bodies=True,
    ),
)
MODERATIONS = (
    Operation(
        name="create_moderation",
        tag=TAG,
        method="POST",
        summary="Ask whether texts or images are harmful.",
        parameters=(headers.DATA,),
        body=(
            open_body(moderations.ModerationBody, name="ModerationBody", words=moderations.ALLOWED),
        ),
        examples={"a moderation": {"model": "demo-guard", "input": "A boat in the harbour"}},
        responses=answers(
            _object(
                "The upstream's own response.",
                results={
                    "type": "array",
                    "description": "For each input whether it is flagged, and for what.",
                    "items": {"type": "object"},
                },
            ),
            "The categories.",
        ),
        raises=(errors.MODEL_NOT_FOUND, errors.MODEL_NOT_ALLOWED),
        timeout="image_total",
        passes_bodies=True,
    ),
)
