"""`POST /v1/audio/speech`: a text is spoken (contract §6; contract for media §5, Speech)."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from actors.jobs.jobs import new_job_id
from channels.families import SPEECH
from channels.media.replies import Done, SpeechAudio
from gw.api.audio.tasks import SHOWN, shown
from gw.api.base import ApiHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.references import Reference, own_voice
from gw.api.task_lists import listed, polled
from gw.calls.exchange_upstream import Made
from gw.calls.unit_bill import UnitBill
from gw.calls.whole_submit import Delivery
from gw.media import read_speech
from gw.media.lists import SPEECH as SPEECH_LIST


class SpeechHandler(ApiHandler):
    """Recordings, sold by the character, at once or as tasks; the list of tasks is free."""

    route = "audio_speech"
    protocol = SPEECH.protocol
    limited = billed = idempotent = True

    async def on_get(self) -> None:
        self.write(await listed(self, "speech", SPEECH_LIST, shown, word_of=SHOWN))

    async def on_post(self) -> None:
        media, submit = media_of(self), await MediaSubmit.begin(self, "speech")
        request = await submit.read(read_speech, model=lambda read: read.model)
        voice = await own_voice(request.voice, media.voices, account_id=self.principal.account_id)
        voice = voice or Reference(request.voice)
        request = replace(request, voice=voice.upstream_id)
        price, characters = submit.price(), len(request.input)
        if request.is_async:
            job_call = submit.job_call(
                request,
                job_id=new_job_id("speech"),
                job=media.jobs.new_job("speech", price=price, quantity=characters),
                hold_nano_usd=price.cost_nano_usd(characters),
                cheaper=_CHEAPER,
                status="pending",
                pins=voice.pins,
            )
            await submit.run_job(job_call, media.speech_submit)
            return
        call = submit.whole_call(
            request,
            bill=UnitBill(price, characters),
            cheaper=_CHEAPER,
            upstream_key=self.call_id.hex,
            deliver=_delivered,
            pins=voice.pins,
        )
        await submit.run_whole(call, media.speech)


class SpeechTaskHandler(ApiHandler):
    """One task."""

    route = "speech_task"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "speech", task_id, shown))


_CHEAPER = "or send a shorter text."


async def _delivered(made: Made) -> Delivery:
    """The recording; digits become bytes a piece at a time, so that nothing else waits for it."""
    assert isinstance(made.reply, Done), made
    audio = made.reply.result
    assert isinstance(audio, SpeechAudio), audio
    if not audio.is_hex:
        return Delivery(audio.content_type, audio.data)
    pieces: list[bytes] = []
    for piece in audio.pieces():
        pieces.append(piece)
        await asyncio.sleep(0)
    return Delivery(audio.content_type, b"".join(pieces))
