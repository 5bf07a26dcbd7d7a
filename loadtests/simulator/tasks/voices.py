"""The plain wire's voices: presets and clones."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import DAY, Call, Json, Reply, json_reply, text_of
from loadtests.simulator.tasks.files import sound_file

PRESETS: Final = {
    "preset-clear": ("Clear", "en"),
    "preset-warm": ("Warm", "en"),
    "preset-ruhig": ("Ruhig", "de"),
}
NAME_MAX: Final = 20
PREVIEW_SECONDS: Final = 2.0


def clone(call: Call) -> Reply:
    """`POST /v1/audio/voices`."""
    text_of(call.body, "model")
    name, source = text_of(call.body, "name"), text_of(call.body, "audio_url")
    if len(name) > NAME_MAX:
        raise Refusal(400, f"Invalid 'name': at most {NAME_MAX} characters.")
    if not source.startswith(("http://", "https://")):
        raise Refusal(400, "Invalid 'audio_url': a public http(s) link is required.")
    voice = call.begin("voice", "voc_", name=name)
    shown = {"id": voice.id, "name": name, "kind": "cloned", "status": "ready"}
    return json_reply({**shown, "created_at": int(voice.created_at)})


def listed(call: Call) -> Reply:
    """`GET /v1/audio/voices`: presets, then the key's own."""
    found: list[Json] = [
        {
            "id": voice,
            "name": name,
            "kind": "preset",
            "language": language,
            "preview_url": call.files.link(
                call.base, sound_file(PREVIEW_SECONDS, len(voice)), voice, call.now + DAY
            ),
        }
        for voice, (name, language) in PRESETS.items()
    ]
    for task in call.book.of_wire("voices", call.api_key):
        own = {"id": task.id, "name": task.facts["name"], "kind": "cloned"}
        found.append({**own, "language": None, "preview_url": None})
    return json_reply({"voices": found})


def is_usable_voice(call: Call, voice: str) -> bool:
    """Whether it may speak: a preset, or the key's own."""
    task = call.book.find(voice, call.api_key)
    return voice in PRESETS or (task is not None and task.kind == "voice")
