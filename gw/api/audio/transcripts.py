"""`POST /v1/transcripts/extract`: the spoken script of a short video (reference 7.8)."""

from __future__ import annotations

import uuid
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from channels.families import TRANSCRIPTS
from channels.media.replies import Done
from channels.media.results import Segment, TranscriptResult
from channels.redaction import Redactor
from gw.api.audio.voices import JSON
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall, first_of
from gw.calls.bills import UnitBill
from gw.calls.media_calls import Delivery, SubmitResult
from gw.error_bodies import dumps
from gw.media.registrations import read_transcript

(ENDPOINT_TYPE,) = (one.name for one in TRANSCRIPTS.endpoint_types)


class Script(TypedDict):
    """What is said in a video."""

    id: Annotated[str, Meta(description="The script's id, `task_id` in the call logs.")]
    text: Annotated[str, Meta(description="All that is said.")]
    title: Annotated[str | None, Meta(description="The video's title, if known.")]
    language: Annotated[str | None, Meta(description="The language spoken, if known.")]
    duration_sec: Annotated[int | float | None, Meta(description="Its seconds, if known.")]
    segments: Annotated[list[Segment], Meta(description="The text in pieces, if known.")]


class TranscriptHandler(KeyedHandler):
    """Extracts one script, billed per call."""

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "text")
        default_model = first_of(self.services.current.registry, ENDPOINT_TYPE)
        request = await submit.read_submission(
            read_transcript, default_model, model=lambda read: read.model
        )
        transcript_id = f"trs_{uuid.uuid4().hex}"
        redactor = self.services.current.redactor

        async def deliver(made: SubmitResult) -> Delivery:
            return await _script_delivered(made, transcript_id, redactor)

        call = submit.call(
            request,
            bill=UnitBill(submit.price(), 1),
            cheaper="or ask for less.",
            made_id=transcript_id,
            deliver=deliver,
        )
        await submit.run(call, media.transcript)


async def _script_delivered(made: SubmitResult, transcript_id: str, redactor: Redactor) -> Delivery:
    """Return the script in the gateway's form, without members that identify the channel."""
    assert isinstance(made.reply, Done), made
    script = made.reply.result
    assert isinstance(script, TranscriptResult), script
    members = msgspec.to_builtins(script)
    shown = {"id": transcript_id} | {name: members[name] for name in _SCRIPT_MEMBERS}
    return Delivery(JSON, await redactor.responses.redact_whole(dumps(shown)))


_SCRIPT_MEMBERS = ("text", "title", "language", "duration_sec", "segments")
