"""`/v1/audio/speech`: recordings, at once or as tasks (reference 7.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, NotRequired, TypedDict

from msgspec import Meta
from msgspec.structs import replace

from actors.jobs.job import Job, State
from actors.jobs.service import new_job_id
from channels.media.replies import Done
from channels.media.results import SpeechAudio, SpeechResult
from gw.api import task_shapes
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall
from gw.api.references import Reference, own_voice
from gw.api.task_lists import error_of, listed, polled
from gw.calls.bills import UnitBill
from gw.calls.media_calls import Delivery, SubmitResult
from gw.media.speech import read_speech
from gw.media.task_list import SPEECH as SPEECH_LIST

SHOWN: Mapping[State, str] = MappingProxyType({"queued": "pending", "running": "pending"})


class SpeechTask(TypedDict):
    """A recording that is made, or was."""

    id: task_shapes.TaskId
    status: Annotated[
        str,
        Meta(
            description="`pending` until its end.",
            extra_json_schema={"enum": list(SPEECH_LIST.states)},
        ),
    ]
    model: task_shapes.TaskModel
    created_at: task_shapes.SubmittedAt
    characters: Annotated[int, Meta(description="The characters of its text, which are billed.")]
    audio_url: NotRequired[Annotated[str, Meta(description="A link to the recording.")]]
    expires_at: NotRequired[task_shapes.ExpiresAt]
    error: NotRequired[task_shapes.TaskFailure]


class SpeechTasks(TypedDict):
    """A list of tasks."""

    data: Annotated[list[SpeechTask], Meta(description="The tasks, newest first.")]


def shown(job: Job) -> SpeechTask:
    """Return a task as clients see it."""
    members: SpeechTask = {
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
    if (error := error_of(job)) is not None:
        members["error"] = error
    return members


class SpeechHandler(KeyedHandler):
    """Makes recordings, billed per character, at once or as tasks; lists the tasks for free."""

    async def on_get(self) -> None:
        self.write(await listed(self, "speech", SPEECH_LIST, shown, word_of=SHOWN))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "speech")
        request = await submit.read_submission(read_speech, model=lambda read: read.model)
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
