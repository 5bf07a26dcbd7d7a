"""The plain wire, the client API of a gateway spoken by an upstream: each endpoint with its rules.

Films (general, digital human and smart edit, all at one endpoint), avatars, templates of smart
edit, songs (each task makes two), speech (the sound at once, or as a task), voices, transcripts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal

import msgspec

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.files import File, Reply, file_of, made
from loadtests.simulator.tasks.call import (
    DAY,
    SUBMIT,
    Call,
    Json,
    Link,
    Seconds,
    Speed,
    Text,
    Wire,
    film_of,
)
from loadtests.simulator.tasks.task import QUEUED, RUNNING, SUCCEEDED, Task

LINK_SECONDS: Final = 7 * 86_400.0
ERRORS: Final = {
    400: ("invalid_request", "invalid_request_error"),
    401: ("invalid_api_key", "authentication_error"),
    402: ("quota_exceeded", "insufficient_quota"),
    403: ("permission_denied", "permission_error"),
    404: ("not_found", "invalid_request_error"),
    409: ("idempotency_key_reuse", "invalid_request_error"),
    429: ("rate_limit_exceeded", "rate_limit_error"),
    504: ("upstream_timeout", "api_error"),
}
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=20)]
Sound = Literal["mp3", "wav", "opus", "aac", "flac", "pcm"]


def _error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    usual, kind = ERRORS.get(status, ("upstream_error", "api_error"))
    told = {"message": message, "type": kind, "code": usual if code is None else code}
    return status, {"error": told}


_wire = partial(Wire, error=_error, honours_keys=True)
WIRES: Final = (
    VIDEOS := _wire("videos"),
    AVATARS := _wire("avatars"),
    CLIPS := _wire("clips"),
    MUSIC := _wire("music"),
    SPEECH := _wire("speech"),
    VOICES := _wire("voices"),
    TRANSCRIPTS := _wire("transcripts"),
)


def _serve_tasks(wire: Wire, path: str, kind: str, shown: Callable[[Task, Call], Json]) -> None:
    """Polls of a kind of task at `path`, and its cancellation."""

    def poll(call: Call) -> Json:
        return shown(call.task(kind), call)

    def cancel(call: Call) -> Json:
        task = call.task(kind)
        if not task.cancel(call.now):
            raise Refusal(400, f"The task {task.id!r} is over.")
        return shown(task, call)

    wire.serves("poll", f"GET {path}/*")(poll)
    wire.serves("cancel", f"DELETE {path}/*")(cancel)


def _begun(task: Task, call: Call, waiting: str | None = None) -> Json:
    """What every task shows; `waiting` is the word until it ends, where the wire has its own."""
    status = task.state(call.now)
    if waiting is not None and status in (QUEUED, RUNNING):
        status = waiting
    created_at = int(task.created_at)
    shown = {"id": task.id, "status": status, "model": task.model, "created_at": created_at}
    if task.cancelled_at is not None:
        shown["error"] = {"code": "task_cancelled", "message": "The task was cancelled."}
    elif task.has_failed(call.now):
        shown["error"] = task.error
    return shown


# Films

CLIP_SECONDS: Final = 30.0  # of one that was asked for without a length
USUAL_SECONDS: Final = 5.0  # of all others
CHARACTERS_PER_SECOND: Final = 5
# By model, or by what its name begins with.
REQUIRED: Final = {
    "dh-avatar": ("duration", "avatar"),
    "dh-motion": ("duration", "source_video_url"),
    "dh": ("duration", "source_video_url", "audio_url"),
    "clip-realman": ("style_id", "source_video_url"),
    "clip-mixcut": ("style_id", "audio_url", "materials"),
    "clip-news": ("style_id", "title", "materials"),
}
_FILM = shape(
    model=Text,
    duration=Seconds | None,
    content=list[Json] | None,
    style_id=str | None,
    ratio=str | None,
)


@VIDEOS.serves(SUBMIT, "POST /v1/videos/generations", _FILM)
def submit_film(call: Call) -> Json:
    body = call.body
    model, seconds, language = body["model"], body.get("duration") or USUAL_SECONDS, None
    kind = model.partition("-")[0]
    for name in REQUIRED.get(model, REQUIRED.get(kind, ("content",))):
        if not body.get(name):
            raise Refusal(400, f"Invalid {name!r}: it is required.")
    if model == "dh-avatar":
        seconds = _speaking(call)
    elif kind == "clip":
        if find_template(body["style_id"]) is None:
            raise Refusal(400, "Invalid 'style_id': no such template.")
        seconds, language = body.get("duration") or CLIP_SECONDS, body.get("language")
    elif kind != "dh" and not any(item.get("text") for item in body["content"]):
        raise Refusal(400, "Invalid 'content': an item of type text is required.")
    return _film(call.begin("video", "vid_", seconds, language=language), call)


def _speaking(call: Call) -> float:
    """Check who speaks; the seconds of the film."""
    body = call.body
    if not call.is_usable(body["avatar"], "avatar", AVATAR_PRESETS):
        raise Refusal(400, "Invalid 'avatar': not found or not ready.")
    if body.get("audio_url") is not None:
        return float(body["duration"])
    voice = body.get("voice", "")
    own = call.book.find(voice, call.api_key)
    if voice not in VOICE_PRESETS and (own is None or own.kind != "voice"):
        raise Refusal(400, "Invalid 'voice': not found.")
    return max(1.0, len(body["text"]) / CHARACTERS_PER_SECOND)


def _film(task: Task, call: Call) -> Json:
    shown, progress = _begun(task, call), task.progress(call.now)
    if progress is not None:
        shown["progress"] = progress
    if task.state(call.now) != SUCCEEDED:
        return shown
    link, expires_at = call.link(task, film_of(task), LINK_SECONDS, is_renewed=True)
    shown |= {"duration": task.reported_seconds, "video_url": link, "expires_at": expires_at}
    if language := task.facts["language"]:
        shown["output_files"] = [{"language": language, "url": link}]
    return shown


_serve_tasks(VIDEOS, "/v1/videos/generations", "video", _film)


@VIDEOS.serves("asset", "POST /v1/assets", shape(model=Text, type=Text, url=Text))
def register_asset(call: Call) -> Json:
    """A picture of a real person, checked and registered."""
    return {"id": "asset_" + call.book.new_id()}


# Avatars: registered, which takes as long as a task, and presets

AVATAR_PRESETS: Final = {"preset-anna": "Anna", "preset-bao": "Bao", "preset-carla": "Carla"}
_AVATAR = shape(name=Name, source_url=Link, source_kind=Literal["image", "video"] | None)


@AVATARS.serves(SUBMIT, "POST /v1/videos/avatars", _AVATAR)
def register_avatar(call: Call) -> Json:
    told = {"name": call.body["name"], "source_kind": call.body.get("source_kind", "image")}
    return _avatar(call.begin("avatar", "ava_", told=told), call)


@AVATARS.serves("catalog", "GET /v1/videos/avatars")
def list_avatars(call: Call) -> Json:
    return {"avatars": [_avatar(one, call) for one in call.book.of_wire("avatars", call.api_key)]}


@AVATARS.serves("catalog", "GET /v1/videos/avatars/presets")
def list_avatar_presets(call: Call) -> Json:
    return {"avatars": [{"id": one, "name": name} for one, name in AVATAR_PRESETS.items()]}


@AVATARS.serves("poll", "GET /v1/videos/avatars/*")
def poll_avatar(call: Call) -> Json:
    return _avatar(call.task("avatar"), call)


@AVATARS.serves("cancel", "DELETE /v1/videos/avatars/*")
def delete_avatar(call: Call) -> Json:
    task = call.task("avatar")
    if not task.is_over(call.now):
        raise Refusal(400, "The avatar is still pending.")
    call.book.remove(task)
    return {"id": task.id, "deleted": True}


def _avatar(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    words = {SUCCEEDED: "ready", QUEUED: "pending", RUNNING: "pending"}
    created_at = datetime.fromtimestamp(task.created_at, UTC).isoformat(timespec="seconds")
    return {
        "id": task.id,
        **task.facts["told"],
        "status": words.get(state, state),
        "error": task.reason[1] if task.has_failed(call.now) else None,
        "created_at": created_at,
    }


# Templates of smart edit

SCENES: Final = ("virtualman", "realMan", "oralMixCutting", "newsMixCutting")
STYLES: Final = (("Plain", True, True), ("Bold", True, False), ("Quiet", False, False))
CANVAS: Final = {"width": 1080, "height": 1920, "ratio": "9:16"}


def templates(scene: str) -> list[Json]:
    """A scene's templates, without their covers."""
    return [
        {"id": f"{scene.lower()}-{title.lower()}", "title": title, "scene": scene}
        | {"has_title": has_title, "has_persona": has_persona}
        for title, has_title, has_persona in STYLES
    ]


def find_template(template_id: str) -> Json | None:
    found = (item for scene in SCENES for item in templates(scene) if item["id"] == template_id)
    return next(found, None)


@CLIPS.serves("catalog", "GET /v1/videos/clip-templates")
def list_templates(call: Call) -> Json:
    scene = call.exchange.parameters().get("scene", "")
    if scene and scene not in SCENES:
        raise Refusal(400, f"Invalid 'scene': expected one of {', '.join(SCENES)}.")
    found = [item for one in SCENES if scene in ("", one) for item in templates(one)]
    return {"templates": [{**item, "cover": cover(call, item["id"])} for item in found]}


@CLIPS.serves("catalog", "GET /v1/videos/clip-templates/*")
def show_template(call: Call) -> Json:
    item = find_template(call.path[0])
    if item is None:
        raise Refusal(404, f"No template {call.path[0]!r}.")
    layers = [{"id": "video", "type": "video", "name": "Video", "editable": False}]
    if item["has_title"]:
        layers.append({"id": "header", "type": "text", "name": "Title", "editable": True})
    if item["has_persona"]:
        layers.append({"id": "ip", "type": "text", "name": "Persona", "editable": True})
    return {**item, "cover": cover(call, item["id"]), "canvas": CANVAS, "layers": layers}


def cover(call: Call, name: str) -> str:
    """A link to the picture of a template."""
    return call.files.link(call.base, File("png"), name, call.now + DAY)


# Songs

LENGTHS: Final = (24.0, 30.5)  # of the two songs, in seconds
_SONG = shape(
    model=Text, prompt=str | None, lyrics=str | None, title=str | None, instrumental=bool | None
)


@MUSIC.serves(SUBMIT, "POST /v1/music/generations", _SONG)
def submit_songs(call: Call) -> Json:
    body = call.body
    is_instrumental = body.get("instrumental")
    if not (body.get("prompt") or body.get("lyrics") or is_instrumental):
        raise Refusal(400, "One of 'prompt' and 'lyrics' is required.")
    lyrics = "" if is_instrumental else body.get("lyrics", "")
    title = body.get("title") or body.get("prompt", "")[:40] or "Untitled"
    task = call.begin("music", "mus_", sum(LENGTHS), title=title, lyrics=lyrics)
    return {**_songs(task, call), "status": QUEUED}


def songs_of(task: Task, call: Call, life: float) -> list[Json]:
    """The songs of a task that is over."""
    return [
        {
            "clip_id": f"{task.id}-{number}",
            "title": task.facts["title"],
            "duration_sec": seconds,
            "audio_url": call.link(task, file_of("mp3", seconds), life)[0],
            "image_url": call.link(task, File("png"), life)[0],
            "lyrics": task.facts["lyrics"],
        }
        for number, seconds in enumerate(LENGTHS, 1)
    ]


def _songs(task: Task, call: Call) -> Json:
    shown = _begun(task, call, waiting="processing")
    if task.state(call.now) == SUCCEEDED:
        shown["tracks"] = songs_of(task, call, LINK_SECONDS)
    return shown


_serve_tasks(MUSIC, "/v1/music/generations", "music", _songs)

# Speech

SPOKEN_PER_SECOND: Final = 15  # characters
SPOKEN_SECONDS_MAX: Final = 60.0
_SPEECH = shape(model=Text, voice=Text, input=Text, response_format=Sound | None, speed=Speed)


@SPEECH.serves(SUBMIT, "POST /v1/audio/speech", _SPEECH)
def submit_speech(call: Call) -> Json | Reply:
    body = call.body
    text, extension = body["input"], body.get("response_format") or "mp3"
    seconds = spoken_seconds(text, body.get("speed") or 1.0)
    if body.get("async") is not True:
        file = file_of(extension, seconds)
        return Reply(made(file)[0], content_type=file.content_type)
    task = call.begin("speech", "tts_", seconds, characters=len(text), format=extension)
    return _speech(task, call)


def spoken_seconds(text: str, speed: float) -> float:
    """The length of this text as speech."""
    return min(SPOKEN_SECONDS_MAX, max(0.5, len(text) / SPOKEN_PER_SECOND / speed))


def _speech(task: Task, call: Call) -> Json:
    shown = _begun(task, call, waiting="pending") | {"characters": task.facts["characters"]}
    if task.state(call.now) == SUCCEEDED:
        file = file_of(task.facts["format"], task.made_seconds)
        link, ends_at = call.link(task, file, LINK_SECONDS, is_renewed=True)
        shown |= {"audio_url": link, "expires_at": ends_at}
    return shown


_serve_tasks(SPEECH, "/v1/audio/speech", "speech", _speech)

# Voices: presets and clones

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


# Transcripts: at once, or (directive `later`) as a task

SENTENCES: Final = (
    (0.0, 2.4, "Welcome to the harbour."),
    (2.4, 6.1, "Every lantern here has been counted twice."),
    (6.1, 8.5, "Nobody has closed the ledger yet."),
)


@TRANSCRIPTS.serves(SUBMIT, "POST /v1/transcripts/extract", shape(url=Link, language=str | None))
def extract_script(call: Call) -> Json:
    language = call.body.get("language", "en")
    task = call.begin("transcript", "trs_", SENTENCES[-1][1], language=language)
    if call.directive.later:
        return {"id": task.id, "status": task.state(call.now)}
    return {"id": task.id, **_script(task)}


@TRANSCRIPTS.serves("poll", "GET /v1/transcripts/extract/*")
def poll_script(call: Call) -> Json:
    task = call.task("transcript")
    shown = _begun(task, call)
    return shown | (_script(task) if shown["status"] == SUCCEEDED else {})


def _script(task: Task) -> Json:
    return {
        "text": " ".join(sentence for _, _, sentence in SENTENCES),
        "title": "The harbour",
        "language": task.facts["language"],
        "duration_sec": task.made_seconds,
        "segments": [{"start": at, "end": end, "text": text} for at, end, text in SENTENCES],
    }
