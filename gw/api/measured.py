"""Endpoints billed by a measurement of the upstream (`gw/calls/measured.py`).

POST /v1/rerank: documents, sorted by their relevance to a query.
POST /v1/moderations: free, at any balance; its row costs nothing.
POST /v1/audio/transcriptions: the text of a recording, billed by seconds, tokens or the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.wallet.bounds import MARGIN, SLACK_MILLISECONDS
from channels.dialects import transcriptions
from channels.dialects.moderations import dialect as moderations
from channels.dialects.rerank import dialect as rerank
from channels.dialects.token_counts import Usage
from channels.registry import ModelSpec
from gw.api.call_spans import begin_span
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler, guarded
from gw.api.media_submit import media_of
from gw.api.model_call import ModelCall, first_of
from gw.calls.bills import NO_TOKENS
from gw.calls.measured import Amount, Measured, MeasuredBill, as_stated
from gw.calls.media import Media
from gw.calls.media_calls import PieceCall
from gw.calls.request import FormUpload, PieceRequest
from gw.calls.token_charge import tokens_of_bytes
from gw.idempotency.claim import IdempotencyClaim
from metrics import genai
from metrics.spans import Attributes

# Tokens of a second of sound, and of the text spoken in it: at most, and usually.
INPUT_TOKENS_PER_SECOND = 13
OUTPUT_TOKENS_PER_SECOND_MAX = 10
OUTPUT_TOKENS_PER_SECOND_USUAL = 4

# Searches added to the margin, and the least tokens of a part of a long document.
SLACK_SEARCHES = 10
RERANKED_TOKENS_MIN = 500

(_MODERATION,) = (one.name for one in moderations.DIALECT.family.endpoint_types)
_FREE = Amount(quantity=0, usage=NO_TOKENS)


class MeasuredHandler(ApiHandler):
    """One call on one of its channels."""

    idempotency: IdempotencyClaim | None = None

    @property
    def pieces(self) -> Media[PieceCall]:
        """The use-case of these calls."""
        return media_of(self).pieces

    async def run(
        self,
        call: ModelCall,
        request: PieceRequest,
        bill: MeasuredBill,
        *,
        cheaper: str,
        attributes: Callable[[], Attributes] = dict,
        content_type: str | None = "application/json",
        render: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Hold the highest cost, run the call and settle it."""
        piece = PieceCall(
            facts=call.facts(),
            model=call.model,
            cap_nano_usd=self.principal.spend_cap_nano_usd if self.is_billed else None,
            spender=call.spender(),
            demand=call.demand,
            bill=bill,
            cheaper=cheaper,
            span=begin_span(self, call.model, attributes),
            request=request,
            started=self.services.clock.monotonic(),
            idempotency=self.idempotency,
            detail=call.detail,
            content_type=content_type,
            render=render,
        )
        pieces = self.pieces
        await guarded(call, self.idempotency, lambda writer: pieces.run_call(piece, writer))

    def piece(self, call: ModelCall, request: Any, **path: str) -> PieceRequest:
        """Return the request in the form of the endpoint's dialect."""
        return PieceRequest(
            request,
            protocol=self.endpoint.protocol,
            body=self.request.body,
            weight=call.weight,
            helpers=call.helpers,
            path=path,
        )


class ModerationsHandler(MeasuredHandler):
    """Moderates texts and pictures."""

    async def on_post(self) -> None:
        call = ModelCall(self)
        usual = first_of(self.services.current.registry, _MODERATION)
        request = await call.read_request(moderations.DIALECT, usual=usual)
        call.require_served()
        bill = MeasuredBill(call.model, most=_FREE, reading=_moderation, units_of=_unchanged)
        await self.run(call, self.piece(call, request, usual=usual), bill, cheaper="")


def _moderation(body: bytes) -> Measured:
    return Measured(quantity=0, error=moderations.failure_in(body))


class RerankHandler(KeyedHandler, MeasuredHandler):
    """Ranks documents by one query."""

    async def on_submit(self, call: ModelCall, /) -> None:
        request: rerank.RerankRequest = await call.read_request(rerank.DIALECT)
        call.require_served()
        amount = _searches(request)
        bill = MeasuredBill(
            call.model,
            most=amount,
            reading=as_stated(rerank.read_response),
            units_of=_unchanged,
            # A long document is split, and each part counts as one.
            slack=SLACK_SEARCHES + amount.usage.input_tokens // RERANKED_TOKENS_MIN,
        )
        cheaper = "or send fewer or shorter documents."
        await self.run(call, self.piece(call, request), bill, cheaper=cheaper)


def _searches(request: rerank.RerankRequest) -> Amount:
    """Return the highest amount: upstreams read the query again with each document."""
    query = tokens_of_bytes(request.query_bytes) * request.documents
    tokens = query + tokens_of_bytes(request.documents_bytes)
    searches = -(-request.documents // rerank.DOCUMENTS_PER_SEARCH)
    return Amount(quantity=searches, usage=Usage(input_tokens=tokens, output_tokens=0))


def _unchanged(quantity: int) -> int:
    return quantity


class TranscriptionsHandler(KeyedHandler, MeasuredHandler):
    """Transcribes one recording."""

    async def on_submit(self, call: ModelCall, /) -> None:
        body = self.request.body
        request = await call.read_form(transcriptions.read_request)
        model = call.model

        def measured(response: bytes) -> Measured:
            is_text = request.is_text and not (
                request.asks_length and transcriptions.is_object(response)
            )
            read = transcriptions.read_response(response, is_text=is_text)
            length = read.milliseconds
            if is_text and length is not None:  # the recording may go on after the last subtitle
                length = max(length, request.stated_milliseconds or 0)
            return Measured(
                usage=read.usage,
                quantity=1 if _is_by_call(model) else length,
                least=_spoken(model, read.spoken_milliseconds),
                error=read.error,
            )

        bill = MeasuredBill(
            model,
            most=_sound(model, request.milliseconds_max, OUTPUT_TOKENS_PER_SECOND_MAX),
            likely=None
            if request.stated_milliseconds is None
            else _spoken(model, request.stated_milliseconds),
            reading=measured,
            units_of=_seconds,
            # Some codecs need a quarter of the bytes that are held for.
            slack=SLACK_MILLISECONDS
            + (0 if request.milliseconds is not None else MARGIN * request.milliseconds_max),
        )
        await self.run(
            call,
            FormUpload(
                request, protocol=self.endpoint.protocol, body=body, address=transcriptions.ADDRESS
            ),
            bill,
            cheaper="or send a shorter recording.",
            attributes=lambda: {genai.OUTPUT_TYPE: "text"},
            content_type=_type_of(request),
            render=transcriptions.text_of if request.asks_length else None,
        )


def _type_of(request: transcriptions.TranscriptionRequest) -> str | None:
    """Return the content type of the client's response; None: the upstream's."""
    if request.asks_length:
        return "text/plain; charset=utf-8"
    return None if request.is_text else "application/json"


def _sound(model: ModelSpec, milliseconds: int, output_per_second: int) -> Amount:
    seconds = _seconds(milliseconds)
    usage = Usage(
        input_tokens=INPUT_TOKENS_PER_SECOND * seconds, output_tokens=output_per_second * seconds
    )
    return Amount(quantity=1 if _is_by_call(model) else milliseconds, usage=usage)


def _spoken(model: ModelSpec, milliseconds: int) -> Amount:
    return _sound(model, milliseconds, OUTPUT_TOKENS_PER_SECOND_USUAL)


def _is_by_call(model: ModelSpec) -> bool:
    return model.price.per_second is None


def _seconds(quantity: int) -> int:
    return -(-quantity // 1000)
