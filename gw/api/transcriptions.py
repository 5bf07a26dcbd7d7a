"""POST /v1/audio/transcriptions: the text of a recording, billed by seconds, tokens or the call."""

from __future__ import annotations

from channels.dialects.meter import Usage
from channels.dialects.transcriptions import ADDRESS, read_request, read_response
from channels.families import TRANSCRIPTIONS
from channels.registry import ModelSpec
from gw.api.base import ApiHandler, HandlerWriter, begin_span
from gw.api.chat import ModelCall
from gw.api.submit import media_of
from gw.calls.measured import Amount, Measured, MeasuredBill
from gw.calls.media import PieceCall
from gw.calls.request import FormUpload
from metrics import genai

# Tokens of a second of sound, and of the text that is spoken in it: at most, and usually.
INPUT_TOKENS_PER_SECOND = 13
OUTPUT_TOKENS_PER_SECOND_MAX = 10
OUTPUT_TOKENS_PER_SECOND_USUAL = 4


class TranscriptionsHandler(ApiHandler):
    """One recording."""

    shape = TRANSCRIPTIONS.error_shape
    route = "transcriptions"
    protocol = TRANSCRIPTIONS.protocol
    limited = billed = True

    async def on_post(self) -> None:
        call, body = ModelCall(self), self.request.body
        stated = self.request.headers.get("Content-Type")
        request = await call.read_form(read_request(body, stated))
        model = call.model

        def measured(response: bytes) -> Measured:
            read = read_response(response, is_text=request.is_text)
            quantity = 1 if _is_by_call(model) else read.milliseconds
            return Measured(usage=read.usage, quantity=quantity, error=read.error)

        bill = MeasuredBill(
            model,
            most=_amount(model, request.milliseconds_max, OUTPUT_TOKENS_PER_SECOND_MAX),
            usual=_amount(model, request.milliseconds_usual, OUTPUT_TOKENS_PER_SECOND_USUAL),
            reading=measured,
            units_of=_seconds,
        )
        piece = PieceCall(
            facts=call.facts(),
            model=model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            bill=bill,
            cheaper="or send a shorter recording.",
            span=begin_span(self, model, lambda: {genai.OUTPUT_TYPE: "text"}),
            request=FormUpload(request, ADDRESS, protocol=self.protocol, body=body),
            started=self.services.clock.monotonic(),
            detail=call.detail,
            content_type=None if request.is_text else "application/json",
        )
        await media_of(self).pieces.run(piece, HandlerWriter(self))


def _amount(model: ModelSpec, milliseconds: int, output_per_second: int) -> Amount:
    seconds = _seconds(milliseconds)
    usage = Usage(
        input_tokens=INPUT_TOKENS_PER_SECOND * seconds, output_tokens=output_per_second * seconds
    )
    return Amount(quantity=1 if _is_by_call(model) else milliseconds, usage=usage)


def _is_by_call(model: ModelSpec) -> bool:
    return model.price.per_second is None


def _seconds(quantity: int) -> int:
    return -(-quantity // 1000)
