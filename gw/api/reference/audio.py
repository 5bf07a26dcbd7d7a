"""Music, speech, voices and scripts, in the reference."""

from __future__ import annotations

from actors.catalogs import LIST_SECONDS
from gw import errors
from gw.api.audio import music, speech, transcripts, voices
from gw.api.reference.operation import BYTES, Content, Operation, Response, answers, in_path
from gw.api.reference.tasks import list_parameters
from gw.api.task_shapes import BegunTask
from gw.media import registrations, task_list
from gw.media.music import SongBody
from gw.media.speech import SpeechBody

MUSIC_TAG, TAG = "Music", "Speech and voices"
_RAISED = (errors.MODEL_NOT_FOUND, errors.MODEL_NOT_ALLOWED, errors.QUOTA_EXCEEDED)
_UNKNOWN = (errors.NOT_FOUND,)

MUSIC = (
    Operation(
        name="list_songs",
        tag=MUSIC_TAG,
        summary="List the account's songs.",
        parameters=list_parameters(task_list.MUSIC),
        responses=answers(music.MusicTasks, "The tasks."),
        raises=(errors.INVALID_REQUEST,),
    ),
    Operation(
        name="create_song",
        tag=MUSIC_TAG,
        method="POST",
        summary="Have songs made.",
        description="The response is a task, to be polled every 10 to 20 seconds. Songs that fail"
        " cost nothing.",
        body=(SongBody,),
        examples={"two songs": {"model": "demo-song", "prompt": "Slow rain over small boats"}},
        responses=answers(BegunTask, "The task, which is `queued`; polls say `processing`."),
        raises=_RAISED,
        timeout="video_submit",
    ),
)
SONG = (
    Operation(
        name="get_song",
        tag=MUSIC_TAG,
        summary="Read the task of songs.",
        parameters=(in_path("id", "The id of the task.", "mus_00000000000000000000000000000000"),),
        responses=answers(music.MusicTask, "The task."),
        raises=_UNKNOWN,
    ),
)
SPEECH = (
    Operation(
        name="list_recordings",
        tag=TAG,
        summary="List the account's recordings that were tasks.",
        parameters=list_parameters(task_list.SPEECH),
        responses=answers(speech.SpeechTasks, "The tasks."),
        raises=(errors.INVALID_REQUEST,),
    ),
    Operation(
        name="create_speech",
        tag=TAG,
        method="POST",
        summary="Have a text spoken.",
        description="At once, or with `async` as a task.",
        body=(SpeechBody,),
        examples={
            "speech, as a task": {
                "model": "demo-speech",
                "voice": "preset-warm",
                "input": "Good morning.",
                "async": True,
            },
            "speech, at once": {
                "model": "demo-speech",
                "voice": "preset-warm",
                "input": "Good morning.",
            },
        },
        responses=(
            Response(
                description="The recording, or with `async` the task.",
                contents=(Content(BegunTask), Content(BYTES, "audio/*")),
            ),
        ),
        raises=_RAISED,
        timeout="speech",
    ),
)
RECORDING = (
    Operation(
        name="get_recording",
        tag=TAG,
        summary="Read the task of a recording.",
        parameters=(in_path("id", "The id of the task.", "tts_00000000000000000000000000000000"),),
        responses=answers(speech.SpeechTask, "The task."),
        raises=_UNKNOWN,
    ),
)
VOICES = (
    Operation(
        name="list_voices",
        tag=TAG,
        summary="List the voices that the account may use.",
        responses=answers(voices.Voices, "The voices."),
        timeout=LIST_SECONDS,
    ),
    Operation(
        name="create_voice",
        tag=TAG,
        method="POST",
        summary="Clone a voice.",
        body=(registrations.VoiceBody,),
        examples={
            "a voice of one's own": {
                "model": "demo-voice",
                "name": "Me",
                "audio_url": "https://example.com/me.mp3",
            }
        },
        responses=answers(voices.ClonedVoice, "The voice."),
        raises=_RAISED,
        timeout="voice",
    ),
)
TRANSCRIPTS = (
    Operation(
        name="extract_transcript",
        tag=TAG,
        method="POST",
        summary="Extract the spoken script of a short video.",
        body=(registrations.TranscriptBody,),
        examples={
            "the script of a short video": {
                "model": "demo-script",
                "url": "https://example.com/short",
            }
        },
        responses=answers(transcripts.Script, "The script."),
        raises=_RAISED,
        timeout="transcript",
    ),
)
