"""The plain wire, the client API of a gateway spoken by an upstream: each endpoint with its rules.

Films (general, digital human and smart edit, all at one endpoint), avatars, templates of smart
edit, songs (each task makes two), speech (the sound at once, or as a task), voices, transcripts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import encode
from loadtests.simulator.sound import FORMATS
from loadtests.simulator.tasks.call import (
    DAY,
    SUBMIT,
    Call,
    Json,
    Reply,
    Wire,
    WireRefusal,
    contents_of,
    film_file,
    has_text,
    number_of,
    picture_file,
    ratio_of,
    sound_file,
    text_of,
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


class PlainWire(Wire):
    """A family of the plain wire's endpoints."""

    honours_keys = True

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual, kind = ERRORS.get(status, ("upstream_error", "api_error"))
        told = {"message": message, "type": kind, "code": usual if code is None else code}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        dimension = "requests per minute" if what == "minute" else "concurrency"
        return WireRefusal(429, f"Rate limit exceeded: {dimension}.", "rate_limit_exceeded")

    def serve_tasks(self, path: str, kind: str, shown: Callable[[Task, Call], Json]) -> None:
        """Polls of a kind of task at `path`, and its cancellation."""

        def poll(call: Call) -> Json:
            return shown(call.task(call.path[0], kind), call)

        def cancel(call: Call) -> Json:
            task = call.task(call.path[0], kind)
            if not task.cancel(call.now):
                raise Refusal(400, f"The task {task.id!r} is over.")
            return shown(task, call)

        self.serves("poll", f"GET {path}/*")(poll)
        self.serves("cancel", f"DELETE {path}/*")(cancel)


WIRES: Final = (
    VIDEOS := PlainWire("videos"),
    AVATARS := PlainWire("avatars"),
    CLIPS := PlainWire("clips"),
    MUSIC := PlainWire("music"),
    SPEECH := PlainWire("speech"),
    VOICES := PlainWire("voices"),
    TRANSCRIPTS := PlainWire("transcripts"),
)


def _ending(task: Task, call: Call) -> Json:
    """The member `error` of a task that is over without success."""
    if not task.is_over(call.now) or task.state(call.now) == SUCCEEDED:
        return {}
    if task.cancelled_at is not None:
        return {"error": {"code": "task_cancelled", "message": "The task was cancelled."}}
    return {"error": task.plan.error}


def _begun(task: Task, call: Call, waiting: str | None = None) -> Json:
    """What every task shows; `waiting` is the word until it ends, where the wire has its own."""
    state = task.state(call.now)
    is_waiting = waiting is not None and state in (QUEUED, RUNNING)
    created_at = int(task.created_at)
    status = waiting if is_waiting else state
    return {"id": task.id, "status": status, "model": task.model, "created_at": created_at}


def _check_link(body: Json, name: str) -> str:
    link = text_of(body, name)
    if not link.startswith(("http://", "https://")):
        raise Refusal(400, f"Invalid '{name}': a public http(s) link is required.")
    return link


# Films

USUAL_SECONDS: Final = 5.0  # of a film that was asked for without a length
CLIP_SECONDS: Final = 30.0
CHARACTERS_PER_SECOND: Final = 5
REQUIRED: Final = {
    "dh-motion": ("source_video_url",),
    "clip-realman": ("source_video_url",),
    "clip-mixcut": ("audio_url", "materials"),
    "clip-news": ("title", "materials"),
}


@VIDEOS.serves(SUBMIT, "POST /v1/videos/generations")
def submit_film(call: Call) -> Json:
    body = call.body
    model = text_of(body, "model")
    duration = number_of(body, "duration")
    if model.startswith("dh-"):
        seconds = _human(call, model, duration)
    elif model.startswith("clip-"):
        seconds = _clip(body, model, duration)
    else:
        if not has_text(contents_of(body)):
            raise Refusal(400, "Invalid 'content': an item of type text is required.")
        seconds = duration or USUAL_SECONDS
    ratio = text_of(body, "ratio", "16:9")
    language = body.get("language") if model.startswith("clip-") else None
    return _film(call.begin("video", "vid_", seconds, ratio=ratio, language=language), call)


def _human(call: Call, model: str, duration: float | None) -> float:
    """Check a digital human; the seconds of its film."""
    body = call.body
    if duration is None:
        raise Refusal(400, "Invalid 'duration': it is required.")
    if model != "dh-avatar":
        for name in REQUIRED.get(model, ("source_video_url", "audio_url")):
            text_of(body, name)
        return duration
    if not call.is_usable(text_of(body, "avatar"), "avatar", AVATAR_PRESETS):
        raise Refusal(400, "Invalid 'avatar': not found or not ready.")
    if body.get("audio_url") is not None:
        return duration
    voice = text_of(body, "voice")
    own = call.book.find(voice, call.api_key)
    if voice not in VOICE_PRESETS and (own is None or own.kind != "voice"):
        raise Refusal(400, "Invalid 'voice': not found.")
    return max(1.0, len(text_of(body, "text")) / CHARACTERS_PER_SECOND)


def _clip(body: Json, model: str, duration: float | None) -> float:
    """Check a smart edit; the seconds of its film."""
    if find_template(text_of(body, "style_id")) is None:
        raise Refusal(400, "Invalid 'style_id': no such template.")
    for name in REQUIRED.get(model, ()):
        if not body.get(name):
            raise Refusal(400, f"Invalid '{name}': it is required.")
    return duration or CLIP_SECONDS


def _film(task: Task, call: Call) -> Json:
    shown = _begun(task, call)
    progress = task.progress(call.now)
    if progress is not None:
        shown["progress"] = progress
    shown |= _ending(task, call)
    if task.state(call.now) != SUCCEEDED:
        return shown
    seconds = task.reported_seconds()
    if seconds is not None:
        shown["duration"] = seconds
    if task.plan.has_result:
        ratio = ratio_of(task.facts["ratio"])
        file = film_file(task.made_seconds, ratio, task.seed, task.plan.file_bytes)
        link, expires_at = call.link(task, file, LINK_SECONDS, is_renewed=True)
        shown |= {"video_url": link, "expires_at": expires_at}
        if language := task.facts["language"]:
            shown["output_files"] = [{"language": language, "url": link}]
    return shown


VIDEOS.serve_tasks("/v1/videos/generations", "video", _film)


@VIDEOS.serves("asset", "POST /v1/assets")
def register_asset(call: Call) -> Json:
    """A picture of a real person, checked and registered."""
    for name in ("model", "type", "url"):
        text_of(call.body, name)
    return {"id": "asset_" + call.book.new_id()}


# Avatars: registered, which takes as long as a task, and presets

AVATAR_PRESETS: Final = {"preset-anna": "Anna", "preset-bao": "Bao", "preset-carla": "Carla"}
NAME_MAX: Final = 20
LISTED_MAX: Final = 200


@AVATARS.serves(SUBMIT, "POST /v1/videos/avatars")
def register_avatar(call: Call) -> Json:
    name, _ = text_of(call.body, "name"), text_of(call.body, "source_url")
    kind = text_of(call.body, "source_kind", "image")
    if len(name) > NAME_MAX or kind not in ("image", "video"):
        raise Refusal(400, "Invalid 'name' or 'source_kind'.")
    _check_link(call.body, "source_url")
    return _avatar(call.begin("avatar", "ava_", name=name, source_kind=kind), call)


@AVATARS.serves("catalog", "GET /v1/videos/avatars")
def list_avatars(call: Call) -> Json:
    found = call.book.of_wire("avatars", call.api_key)[:LISTED_MAX]
    return {"avatars": [_avatar(task, call) for task in found]}


@AVATARS.serves("catalog", "GET /v1/videos/avatars/presets")
def list_avatar_presets(call: Call) -> Json:
    return {"avatars": [{"id": one, "name": name} for one, name in AVATAR_PRESETS.items()]}


@AVATARS.serves("poll", "GET /v1/videos/avatars/*")
def poll_avatar(call: Call) -> Json:
    return _avatar(call.task(call.path[0], "avatar"), call)


@AVATARS.serves("cancel", "DELETE /v1/videos/avatars/*")
def delete_avatar(call: Call) -> Json:
    task = call.task(call.path[0], "avatar")
    if not task.is_over(call.now):
        raise Refusal(400, "The avatar is still pending.")
    call.book.remove(task)
    return {"id": task.id, "deleted": True}


def _avatar(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    ending = _ending(task, call).get("error")
    words = {SUCCEEDED: "ready", QUEUED: "pending", RUNNING: "pending"}
    created_at = datetime.fromtimestamp(task.created_at, UTC).isoformat(timespec="seconds")
    return {
        "id": task.id,
        "name": task.facts["name"],
        "source_kind": task.facts["source_kind"],
        "status": words.get(state, state),
        "error": ending.get("message") if isinstance(ending, dict) else ending,
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
    return {"templates": [{**item, "cover": _cover(call, item)} for item in found]}


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
    return {**item, "cover": _cover(call, item), "canvas": CANVAS, "layers": layers}


def _cover(call: Call, item: Json) -> str:
    seed = sum(item["id"].encode()) % 10_000
    return call.files.link(call.base, picture_file(seed), item["id"], call.now + DAY)


# Songs

LENGTHS: Final = (24.0, 30.5)  # of the two songs, in seconds


@MUSIC.serves(SUBMIT, "POST /v1/music/generations")
def submit_songs(call: Call) -> Json:
    body = call.body
    text_of(body, "model")
    if not (body.get("prompt") or body.get("lyrics") or body.get("instrumental") is True):
        raise Refusal(400, "One of 'prompt' and 'lyrics' is required.")
    lyrics = "" if body.get("instrumental") else text_of(body, "lyrics", "")
    title = text_of(body, "title", "") or text_of(body, "prompt", "")[:40] or "Untitled"
    task = call.begin("music", "mus_", sum(LENGTHS), title=title, lyrics=lyrics)
    return {**_songs(task, call), "status": QUEUED}


def songs_of(task: Task, call: Call, life: float) -> list[Json]:
    """The songs of a task that is over."""
    found = []
    for number, seconds in enumerate(LENGTHS):
        audio, _ = call.link(task, sound_file(seconds, task.seed + number), life)
        image, _ = call.link(task, picture_file((task.seed + number) % 10_000), life)
        song = {
            "clip_id": f"{task.id}-{number + 1}",
            "title": task.facts["title"],
            "duration_sec": seconds,
            "audio_url": audio,
            "image_url": image,
            "lyrics": task.facts["lyrics"],
        }
        found.append(song)
    return found


def _songs(task: Task, call: Call) -> Json:
    shown = _begun(task, call, waiting="processing")
    if task.state(call.now) == SUCCEEDED:
        shown["tracks"] = songs_of(task, call, LINK_SECONDS) if task.plan.has_result else []
    return shown | _ending(task, call)


MUSIC.serve_tasks("/v1/music/generations", "music", _songs)


# Speech

SPOKEN_PER_SECOND: Final = 15  # characters
SPOKEN_SECONDS_MAX: Final = 60.0


@SPEECH.serves(SUBMIT, "POST /v1/audio/speech")
def submit_speech(call: Call) -> Json | Reply:
    body = call.body
    text_of(body, "model")
    text_of(body, "voice")
    text = text_of(body, "input")
    extension = text_of(body, "response_format", "mp3")
    if extension not in FORMATS:
        raise Refusal(400, f"Invalid 'response_format': expected one of {', '.join(FORMATS)}.")
    speed = body.get("speed", 1.0)
    if not is_speed(speed):
        raise Refusal(400, "Invalid 'speed': expected 0.25 to 4.")
    seconds = spoken_seconds(text, speed)
    if body.get("async") is not True:
        content_type, make = FORMATS[extension]
        return Reply(make(seconds, len(text)), content_type=content_type.encode())
    task = call.begin("speech", "tts_", seconds, characters=len(text), format=extension)
    return _speech(task, call)


def is_speed(speed: object) -> bool:
    """Whether speech may be as fast."""
    return isinstance(speed, int | float) and not isinstance(speed, bool) and 0.25 <= speed <= 4


def spoken_seconds(text: str, speed: float) -> float:
    """The length of this text as speech."""
    return min(SPOKEN_SECONDS_MAX, max(0.5, len(text) / SPOKEN_PER_SECOND / speed))


def _speech(task: Task, call: Call) -> Json:
    shown = _begun(task, call, waiting="pending") | {"characters": task.facts["characters"]}
    if task.state(call.now) == SUCCEEDED and task.plan.has_result:
        file = sound_file(task.made_seconds, task.seed, task.facts["format"])
        link, ends_at = call.link(task, file, LINK_SECONDS, is_renewed=True)
        shown |= {"audio_url": link, "expires_at": ends_at}
    return shown | _ending(task, call)


SPEECH.serve_tasks("/v1/audio/speech", "speech", _speech)


# Voices: presets and clones

VOICE_PRESETS: Final = {
    "preset-clear": ("Clear", "en"),
    "preset-warm": ("Warm", "en"),
    "preset-ruhig": ("Ruhig", "de"),
}
PREVIEW_SECONDS: Final = 2.0


@VOICES.serves(SUBMIT, "POST /v1/audio/voices")
def clone_voice(call: Call) -> Json:
    text_of(call.body, "model")
    name, _ = text_of(call.body, "name"), text_of(call.body, "audio_url")
    if len(name) > NAME_MAX:
        raise Refusal(400, f"Invalid 'name': at most {NAME_MAX} characters.")
    _check_link(call.body, "audio_url")
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
    file = sound_file(PREVIEW_SECONDS, len(voice))
    return call.files.link(call.base, file, voice, call.now + DAY)


# Transcripts: at once, or (directive `later`) as a task

SENTENCES: Final = (
    (0.0, 2.4, "Welcome to the harbour."),
    (2.4, 6.1, "Every lantern here has been counted twice."),
    (6.1, 8.5, "Nobody has closed the ledger yet."),
)


@TRANSCRIPTS.serves(SUBMIT, "POST /v1/transcripts/extract")
def extract_script(call: Call) -> Json:
    url = _check_link(call.body, "url")
    language = text_of(call.body, "language", "en")
    task = call.begin("transcript", "trs_", SENTENCES[-1][1], url=url, language=language)
    if call.directive.later:
        return {"id": task.id, "status": task.state(call.now)}
    return {"id": task.id, **_script(task)}


@TRANSCRIPTS.serves("poll", "GET /v1/transcripts/extract/*")
def poll_script(call: Call) -> Json:
    task = call.task(call.path[0], "transcript")
    state = task.state(call.now)
    made = _script(task) if state == SUCCEEDED and task.plan.has_result else {}
    return {"id": task.id, "status": state, **_ending(task, call), **made}


def _script(task: Task) -> Json:
    return {
        "text": " ".join(sentence for _, _, sentence in SENTENCES),
        "title": "The harbour",
        "language": task.facts["language"],
        "duration_sec": task.made_seconds,
        "segments": [{"start": at, "end": end, "text": text} for at, end, text in SENTENCES],
    }
