"""Films: general, of digital humans and of smart edit, all at one endpoint."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Seconds, Text, film_of
from loadtests.simulator.tasks.plain.avatars import AVATAR_PRESETS
from loadtests.simulator.tasks.plain.templates import find_template
from loadtests.simulator.tasks.plain.voices import VOICE_PRESETS
from loadtests.simulator.tasks.plain.wire import LINK_SECONDS, begun, plain_wire, serve_tasks
from loadtests.simulator.tasks.task import SUCCEEDED, Task

VIDEOS = plain_wire("videos")

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
    shown, progress = begun(task, call), task.progress(call.now)
    if progress is not None:
        shown["progress"] = progress
    if task.state(call.now) != SUCCEEDED:
        return shown
    link, expires_at = call.link(task, film_of(task), LINK_SECONDS, is_renewed=True)
    shown |= {"duration": task.reported_seconds, "video_url": link, "expires_at": expires_at}
    if language := task.facts["language"]:
        shown["output_files"] = [{"language": language, "url": link}]
    return shown


serve_tasks(VIDEOS, "/v1/videos/generations", "video", _film)


@VIDEOS.serves("asset", "POST /v1/assets", shape(model=Text, type=Text, url=Text))
def register_asset(call: Call) -> Json:
    """A picture of a real person, checked and registered."""
    return {"id": "asset_" + call.book.new_id()}
