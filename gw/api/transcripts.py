"""`POST /v1/transcripts/extract`: the spoken script of a short video (contract §6)."""

from __future__ import annotations

import uuid

import msgspec

from channels.families import TRANSCRIPTS
from channels.media.canonical import Done, TranscriptResult
from channels.redaction import Redactor
from gw.api.base import ApiHandler
from gw.api.chat import first_of
from gw.api.submit import MediaSubmit, media_of
from gw.calls.bills import UnitBill
from gw.calls.media import Delivery, SubmitResult
from gw.errors import dumps
from gw.media.sounds import read_transcript

JSON = "application/json"
(ENDPOINT_TYPE,) = (one.name for one in TRANSCRIPTS.endpoint_types)


class TranscriptHandler(ApiHandler):
    """One script, sold by the call."""

    route = "transcripts"
    protocol = TRANSCRIPTS.protocol
    limited = billed = idempotent = True

    async def on_post(self) -> None:
        media, submit = media_of(self), await MediaSubmit.begin(self, "text")
        default_model = first_of(self.services.current.registry, ENDPOINT_TYPE)
        request = await submit.read(read_transcript, default_model, model=lambda read: read.model)
        transcript_id = f"trs_{uuid.uuid4().hex}"
        redactor = self.services.current.redactor

        async def deliver(made: SubmitResult) -> Delivery:
            return await _delivered(made, transcript_id, redactor)

        call = submit.call(
            request,
            bill=UnitBill(submit.price(), 1),
            cheaper="or ask for less.",
            made_id=transcript_id,
            deliver=deliver,
        )
        await submit.run(call, media.transcript)


async def _delivered(made: SubmitResult, transcript_id: str, redactor: Redactor) -> Delivery:
    """The script in the gateway's own shape, without what the upstream repeats of its channel."""
    assert isinstance(made.reply, Done), made
    script = made.reply.result
    assert isinstance(script, TranscriptResult), script
    members = msgspec.to_builtins(script)
    shown = {"id": transcript_id} | {name: members[name] for name in _SHOWN}
    return Delivery(JSON, await redactor.responses.redact_whole(dumps(shown)))


_SHOWN = ("text", "title", "language", "duration_sec", "segments")
