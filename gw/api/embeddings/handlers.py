"""`POST /v1/embeddings`: the endpoint is there, its models are not (spec: Embeddings)."""

from __future__ import annotations

import msgspec

from channels.families import EMBEDDINGS
from gw.api.base import ApiHandler
from gw.errors.table import MODEL_NOT_FOUND, GatewayError


class _Request(msgspec.Struct):
    model: str = ""


class EmbeddingsHandler(ApiHandler):
    """Authenticates like any billed endpoint, then knows no model, whatever the body says."""

    route = "embeddings"
    protocol = EMBEDDINGS.protocol
    limited = True
    billed = True

    async def on_post(self) -> None:
        try:
            self.model_name = msgspec.json.decode(self.request.body, type=_Request).model or None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self.model_name = None
        raise GatewayError(
            MODEL_NOT_FOUND,
            "Embedding models have been withdrawn; none can be called here.",
            http_status=404,
        )
