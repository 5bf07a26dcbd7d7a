"""Voices: presets and clones"""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import shape
from loadtests.simulator.files import file_of
from loadtests.simulator.tasks.call import DAY, SUBMIT, Call, Json, Link, Text
from loadtests.simulator.tasks.plain.wire import Name, plain_wire

VOICES = plain_wire("voices")

VOICE_PRESETS: Final = {
    "preset-clear": ("Clear", "en"),
    "preset-warm": ("Warm", "en"),
    "preset-ruhig": ("Ruhig", "de"),
}


@VOICES.serves(SUBMIT, "POST /v1/audio/voices", shape(model=Text, name=Name, audio_url=Link))
def clone_voice(call: Call) -> Json:
    name = call.body["name"]
    voice = call.begin("voice", "voc_", name=name)
    shown = {"id": voice.id, "name": name, "kind": "cloned", "status": "ready"}
    return {**shown, "created_at": int(voice.created_at)}


@VOICES.serves("catalog", "GET /v1/audio/voices")
def list_voices(call: Call) -> Json:
    """Presets, then the key's own."""
    found: list[Json] = [
        {"id": voice, "name": name, "kind": "preset", "language": language}
        | {"preview_url": preview(call, voice)}
        for voice, (name, language) in VOICE_PRESETS.items()
    ]
    for task in call.book.of_wire("voices", call.api_key):
        own = {"id": task.id, "name": task.facts["name"], "kind": "cloned"}
        found.append({**own, "language": None, "preview_url": None})
    return {"voices": found}


def preview(call: Call, voice: str) -> str:
    """A link to a few words of a preset voice."""
    return call.files.link(call.base, file_of("mp3", 2.0), voice, call.now + DAY)
