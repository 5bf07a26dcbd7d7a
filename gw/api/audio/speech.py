"""Speech, voices, songs and spoken scripts (contract §6; contract for media §5)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.catalogs import CatalogUnavailable
from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.families import MUSIC_GENERATIONS, SPEECH, TRANSCRIPTS, VOICES
from channels.media.canonical import (
    Done,
    MusicResult,
    SpeechAudio,
    SpeechResult,
    TranscriptResult,
    VoiceResult,
)
from channels.redaction import Redactor
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall, first_of
from gw.api.submit import (
    KeyedHandler,
    MediaSubmit,
    Reference,
    error_of,
    listed,
    media_of,
    own_voice,
    polled,
)
from gw.calls.bills import UnitBill
from gw.calls.media import Delivery, SubmitResult
from gw.error_bodies import dumps
from gw.media.reading import MUSIC
from gw.media.reading import SPEECH as SPEECH_LIST
from gw.media.sounds import read_music, read_speech, read_transcript, read_voice
from gw.voices import Voice, new_voice_id

# `GET /v1/audio/speech`: the tasks of speech (contract §6).

SHOWN: Mapping[State, str] = MappingProxyType({"queued": "pending", "running": "pending"})


def shown(job: Job) -> dict[str, Any]:
    """Return a task as clients see it."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": SHOWN.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
        "characters": job.quantity,
    }
    result = job.result
    if isinstance(result, SpeechResult):
        members["audio_url"] = result.url
        if result.expires_at is not None:
            members["expires_at"] = int(result.expires_at)
    return members | error_of(job)


class SpeechHandler(KeyedHandler):
    """Makes recordings, billed per character, at once or as tasks; lists the tasks for free."""

    route = "audio_speech"
    protocol = SPEECH.protocol

    async def on_get(self) -> None:
        self.write(await listed(self, "speech", SPEECH_LIST, shown, word_of=SHOWN))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "speech")
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
            await submit.run_detached(job_call, media.speech_submit)
            return
        call = submit.call(
            request,
            bill=UnitBill(price, characters),
            cheaper=_CHEAPER,
            deliver=_delivered,
            pins=voice.pins,
        )
        await submit.run(call, media.speech)


class SpeechTaskHandler(ApiHandler):
    """One task."""

    route = "speech_task"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "speech", task_id, shown))


_CHEAPER = "or send a shorter text."


async def _delivered(made: SubmitResult) -> Delivery:
    """Return the recording, decoded in pieces so that the event loop is not blocked."""
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


# `/v1/audio/voices`: voices are cloned from recordings and listed (contract §6).

JSON = "application/json"


class VoicesHandler(KeyedHandler):
    """Clones voices for their price, and lists them for free."""

    route = "audio_voices"
    protocol = VOICES.protocol

    async def on_get(self) -> None:
        """List presets, then the account's voices, newest first."""
        media = media_of(self)
        try:
            offers = await media.catalogs.preset_voices()
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        own = await media.voices.of_account(self.principal.account_id)
        presets = [{**msgspec.to_builtins(offer.item), "kind": "preset"} for offer in offers]
        cloned = [
            {"id": voice.id, "name": voice.name, "language": None, "preview_url": None}
            | {"kind": "cloned"}
            for voice in own
        ]
        shown = [{name: one[name] for name in _SHOWN} for one in (*presets, *cloned)]
        self.write(dumps({"voices": shown}))

    async def on_submit(self, begun: ModelCall, /) -> None:
        """Clone a voice; after a disconnect the client finds the voice in the list."""
        submit, voice_id = MediaSubmit(begun, "voice"), new_voice_id()
        request = await submit.read(read_voice, model=lambda read: read.model)
        call = submit.call(
            request,
            bill=UnitBill(submit.price(), 1),
            cheaper="or use a preset voice.",
            made_id=voice_id,
            deliver=lambda made: self._delivered(made, voice_id, request.name),
        )
        await submit.run_detached(call, media_of(self).voice)

    async def _delivered(self, made: SubmitResult, voice_id: str, name: str) -> Delivery:
        """Return the voice, stored for its account before it is charged."""
        assert isinstance(made.reply, Done), made
        result = made.reply.result
        assert isinstance(result, VoiceResult), result
        now = self.services.clock.now()
        await media_of(self).voices.add(
            Voice(voice_id, name, made.candidate.channel_id, result.upstream_id),
            account_id=self.principal.account_id,
            call_id=self.call_id,
            created_at=now,
        )
        shown = {"id": voice_id, "name": name, "kind": "cloned", "status": "ready"}
        return Delivery(JSON, dumps({**shown, "created_at": int(now)}))


_SHOWN = ("id", "name", "kind", "language", "preview_url")


# `/v1/music/generations`: songs are submitted, polled and listed (spec: Music).

# Until its end a task is `processing`, whatever its upstream reports.
SONG_STATES: Mapping[State, str] = MappingProxyType(
    {"queued": "processing", "running": "processing"}
)


class MusicHandler(KeyedHandler):
    """Submits songs for their price, and lists them for free."""

    route = "music"
    protocol = MUSIC_GENERATIONS.protocol

    async def on_get(self) -> None:
        self.write(await listed(self, "music", MUSIC, shown_song, word_of=SONG_STATES))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "music")
        request = await submit.read(read_music, model=lambda read: read.model)
        price = submit.price()
        call = submit.job_call(
            request,
            job_id=new_job_id("music"),
            job=media.jobs.new_job("music", price=price, quantity=1),
            hold_nano_usd=price.cost_nano_usd(1),
            cheaper="or ask for less.",
            status="queued",
        )
        await submit.run_detached(call, media.video_submit)


class MusicTaskHandler(ApiHandler):
    """One task."""

    route = "music_task"
    limited = True

    async def on_get(self, task_id: str) -> None:
        self.write(await polled(self, "music", task_id, shown_song))


def shown_song(job: Job) -> dict[str, Any]:
    """Return a task as clients see it; missing members of a track are null."""
    members: dict[str, Any] = {
        "id": job.id,
        "status": SONG_STATES.get(job.state, job.state),
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if isinstance(job.result, MusicResult):
        members["tracks"] = msgspec.to_builtins(job.result.tracks)
    return members | error_of(job)


# `POST /v1/transcripts/extract`: the spoken script of a short video (contract §6).

(ENDPOINT_TYPE,) = (one.name for one in TRANSCRIPTS.endpoint_types)


class TranscriptHandler(KeyedHandler):
    """Extracts one script, billed per call."""

    route = "transcripts"
    protocol = TRANSCRIPTS.protocol

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "text")
        default_model = first_of(self.services.current.registry, ENDPOINT_TYPE)
        request = await submit.read(read_transcript, default_model, model=lambda read: read.model)
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
