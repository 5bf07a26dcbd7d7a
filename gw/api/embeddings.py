"""Embeddings, where a model for them is configured (reference 2.10).

POST /v1/embeddings: texts or tokens, on channels of `embeddings`.
POST /v1beta/models/{model}:embedContent and :batchEmbedContents: on channels of native-content.

Any other model is 404 `model_not_found`, as every model is where none is configured: its body is
not even read then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from channels.dialects.dialect import Dialect
from channels.dialects.embeddings import dialect as embeddings
from channels.dialects.native_embeddings import dialect as native
from channels.dialects.stated import Stated
from channels.dialects.token_counts import Usage
from channels.dialects.validation import is_repeatable
from gw.api.chat.gemini import unfit_model
from gw.api.measured import MeasuredHandler
from gw.api.media_submit import media_of
from gw.api.model_call import ModelCall
from gw.calls.measured import Amount, MeasuredBill, as_stated, no_units
from gw.calls.media import Media
from gw.calls.media_calls import PieceCall
from gw.calls.request import PieceRequest
from gw.calls.token_charge import tokens_of_bytes
from gw.errors import MODEL_NOT_FOUND, GatewayError
from gw.upstream_errors import as_http_status

BATCH = "batchEmbedContents"


class _Embeddings(MeasuredHandler):
    """What both forms have in common."""

    @property
    def pieces(self) -> Media[PieceCall]:
        return media_of(self).embeddings

    async def read(self, call: ModelCall, dialect: Dialect, **path: Any) -> Any:
        """Return the request, whose model makes embeddings here. Raises GatewayError."""
        registry, protocol = self.services.current.registry, self.endpoint.protocol
        if not any(registry.is_spoken(model, protocol) for model in registry.models.values()):
            raise GatewayError(
                MODEL_NOT_FOUND,
                "Embedding models have been withdrawn; none can be called here.",
                http_status=404,
            )
        try:
            request = await call.read_request(dialect, **path)
        except GatewayError as error:
            raise as_http_status(error) from None
        if not registry.is_spoken(call.model, protocol):
            raise GatewayError(
                MODEL_NOT_FOUND,
                f"The model `{call.model.id}` makes no embeddings here.",
                param="model",
                http_status=404,
            )
        return request

    async def embed(
        self,
        call: ModelCall,
        request: embeddings.EmbeddingRequest,
        piece: PieceRequest,
        read_response: Callable[[bytes], Stated],
    ) -> None:
        """Hold the cost of the input, run the call and settle it."""
        tokens = request.tokens
        if tokens is None:
            tokens = tokens_of_bytes(request.input_bytes)
        amount = Amount(quantity=0, usage=Usage(input_tokens=tokens, output_tokens=0))
        bill = MeasuredBill(
            call.model,
            most=amount,
            reading=as_stated(read_response),
            units_of=no_units,
            # No token is shorter than a byte.
            tokens_max=max(tokens, request.input_bytes),
        )
        await self.run(call, piece, bill, cheaper="or send fewer or shorter texts.")


class EmbeddingsHandler(_Embeddings):
    """Makes vectors of texts."""

    async def on_post(self) -> None:
        call = ModelCall(self)
        request = await self.read(call, embeddings.DIALECT)
        await self.embed(call, request, self.piece(call, request), embeddings.read_response)


class NativeEmbeddingsHandler(_Embeddings):
    """Makes vectors of contents of the native-content protocol."""

    def named_model(self) -> str | None:
        named: str = self.path_args[0]
        return self.model_name or (named if is_repeatable(named) else None)

    def unknown_path(self) -> GatewayError:
        return unfit_model()

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        call, path = ModelCall(self), {"model": model_id, "is_batch": verb == BATCH}
        request = await self.read(call, native.DIALECT, **path)
        address = native.BATCH_ADDRESS if path["is_batch"] else native.DIALECT.address
        piece = PieceRequest(
            request,
            protocol=self.endpoint.protocol,
            body=self.request.body,
            weight=call.weight,
            helpers=call.helpers,
            path=path,
            address=address,
        )
        await self.embed(call, request, piece, native.read_response)
