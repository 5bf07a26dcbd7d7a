"""`POST /v1/embeddings`: the endpoint exists, its models do not (reference 1.7)."""

from __future__ import annotations

from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.errors import MODEL_NOT_FOUND, GatewayError


class EmbeddingsHandler(ApiHandler):
    """Authenticates like any billed endpoint, then refuses every model."""

    async def on_post(self) -> None:
        ModelCall(self)  # which refuses malformed headers
        raise GatewayError(
            MODEL_NOT_FOUND,
            "Embedding models have been withdrawn; none can be called here.",
            http_status=404,
        )
