"""Embeddings, in the reference."""

from __future__ import annotations

from typing import Any

from channels.dialects.embeddings import dialect as embeddings
from channels.dialects.native_embeddings import dialect as native
from gw import errors
from gw.api.reference.bodies import open_body
from gw.api.reference.operation import Operation, answers, in_path
from gw.api.reference.schemas import NAME

TAG = "Embeddings"
_RAISED = (
    (errors.MODEL_NOT_FOUND, 404),
    (errors.MODEL_NOT_ALLOWED, 403),
    errors.QUOTA_EXCEEDED,
    errors.NO_CHANNEL_AVAILABLE,
)
_LIMITS = ("Three channels at most are tried for a request.",)
_BILLED = "the tokens of the input, as the upstream counts them"
_MODEL = in_path("model", "The model's id.", "demo-vectors")
_CONTENT = {"parts": [{"text": "A boat in the harbour"}]}


def _object(described: str, name: str, **members: Any) -> dict[str, Any]:
    return {
        NAME: name,
        "type": "object",
        "description": described,
        "properties": members,
        "additionalProperties": True,
    }


def _array(described: str) -> dict[str, Any]:
    return {"type": "array", "description": described, "items": {"type": "object"}}


_USAGE = {"type": "object", "description": "The tokens that are billed: `promptTokenCount`."}

EMBEDDINGS = (
    Operation(
        name="create_embedding",
        tag=TAG,
        method="POST",
        summary="Make vectors of texts.",
        description="A model that is not configured for it is 404 `model_not_found`, and so is"
        " every request where none is.",
        body=(open_body(embeddings.EmbeddingBody, name="EmbeddingBody", words=embeddings.ALLOWED),),
        examples={
            "two texts": {
                "model": "demo-vectors",
                "input": ["A boat in the harbour", "It rains."],
                "dimensions": 8,
            }
        },
        responses=answers(
            _object(
                "The upstream's own response.",
                "Embeddings",
                data=_array("The vectors, in the order of the inputs: `embedding`, `index`."),
                usage={
                    "type": "object",
                    "description": "The tokens that are billed: `prompt_tokens`.",
                },
            ),
            "The vectors.",
        ),
        raises=_RAISED,
        timeout="embeddings",
        limits=_LIMITS,
        billed_by=_BILLED,
    ),
)
NATIVE_EMBEDDINGS = (
    Operation(
        name="embed_content",
        tag=TAG,
        method="POST",
        verb="embedContent",
        summary="Make a vector of a content, by the native-content protocol.",
        parameters=(_MODEL,),
        body=(open_body(native.EmbedContentBody, name="EmbedContentBody", words=native.ALLOWED),),
        examples={"a content": {"content": _CONTENT}},
        responses=answers(
            _object(
                "The upstream's own response.",
                "EmbeddedContent",
                embedding={"type": "object", "description": "The vector: `values`."},
                usageMetadata=_USAGE,
            ),
            "The vector.",
        ),
        raises=_RAISED,
        timeout="embeddings",
        limits=_LIMITS,
        billed_by=_BILLED,
    ),
    Operation(
        name="batch_embed_contents",
        tag=TAG,
        method="POST",
        verb="batchEmbedContents",
        summary="Make vectors of several contents, by the native-content protocol.",
        parameters=(_MODEL,),
        body=(
            open_body(
                native.BatchEmbedContentsBody,
                name="BatchEmbedContentsBody",
                words=native.BATCH_ALLOWED,
            ),
        ),
        examples={
            "two contents": {
                "requests": [{"model": "models/demo-vectors", "content": _CONTENT}] * 2
            }
        },
        responses=answers(
            _object(
                "The upstream's own response.",
                "EmbeddedContents",
                embeddings=_array("The vectors, in the order of the requests: `values`."),
                usageMetadata=_USAGE,
            ),
            "The vectors.",
        ),
        raises=_RAISED,
        timeout="embeddings",
        limits=_LIMITS,
        billed_by=_BILLED,
    ),
)
