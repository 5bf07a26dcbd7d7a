"""`POST /v1/embeddings`: the endpoint is there, its models are not (spec: Embeddings)."""

from __future__ import annotations

from channels.families import EMBEDDINGS
from gw.api.base import ApiHandler
from gw.errors.table import MODEL_NOT_FOUND, GatewayError


class EmbeddingsHandler(ApiHandler):
    """Authenticates like any billed endpoint, then knows no model, whatever the body says."""

    route = "embeddings"
    protocol = EMBEDDINGS.protocol
    limited = True
    billed = True

    async def on_post(self) -> None:
        raise GatewayError(
            MODEL_NOT_FOUND,
            "Embedding models have been withdrawn; none can be called here.",
            http_status=404,
        )
