"""`POST /v1/transcripts/extract`: the spoken script of a short video (contract §6)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import msgspec

from channels.families import TRANSCRIPTS
from channels.media.replies import Done, TranscriptResult
from channels.redact import Redactor
from gw.api.media_submit import MediaSubmitHandler
from gw.calls.exchange_upstream import Made
from gw.calls.models import first_of
from gw.calls.unit_bill import UnitBill
from gw.calls.whole_submit import Delivery, WholeCall
from gw.errors.render import dumps
from gw.media import read_transcript

JSON = "application/json"
(ENDPOINT_TYPE,) = (one.name for one in TRANSCRIPTS.endpoint_types)


class TranscriptHandler(MediaSubmitHandler):
    """One script, sold by the call."""

    route = "transcripts"
    protocol = TRANSCRIPTS.protocol
    output = "text"

    async def on_post(self) -> None:
        media = self.media
        submission = await self.submission()
        registry = self.services.registry()
        request = self.read_media(
            lambda: read_transcript(
                self.request.body, default_model=first_of(registry, ENDPOINT_TYPE)
            ),
            model=lambda read: read.model,
        )
        transcript_id = f"trs_{uuid.uuid4().hex}"
        redactor = media.redactor

        async def deliver(made: Made) -> Delivery:
            return await _delivered(made, transcript_id, redactor)

        call = WholeCall(
            facts=self.facts(),
            model=self.model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            bill=UnitBill(self.price(), 1, task_id=transcript_id),
            cheaper="or ask for less.",
            request=request,
            upstream_key=transcript_id,
            deliver=deliver,
            span=self.span("gw.transcripts.extract"),
            started=self.services.clock.monotonic(),
            submission=submission,
            detail=self._detail,
        )
        await self.guarded(submission, lambda writer: media.transcript.run(call, writer))


async def _delivered(made: Made, transcript_id: str, redactor: Callable[[], Redactor]) -> Delivery:
    """The script in the gateway's own shape, without what the upstream repeats of its channel."""
    assert isinstance(made.reply, Done), made
    script = made.reply.result
    assert isinstance(script, TranscriptResult), script
    members = msgspec.to_builtins(script)
    shown = {"id": transcript_id} | {name: members[name] for name in _SHOWN}
    return Delivery(JSON, await redactor().responses.redact_whole(dumps(shown)))


_SHOWN = ("text", "title", "language", "duration_sec", "segments")
