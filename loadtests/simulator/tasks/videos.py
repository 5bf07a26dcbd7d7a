"""The plain wire's films: general, digital human and smart edit, all at one endpoint."""

from __future__ import annotations

from typing import Any, Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.avatars import is_usable_avatar
from loadtests.simulator.tasks.call import (
    Call,
    Json,
    Reply,
    contents_of,
    has_text,
    json_reply,
    number_of,
    ratio_of,
    text_of,
)
from loadtests.simulator.tasks.clips import find_template
from loadtests.simulator.tasks.files import film_file
from loadtests.simulator.tasks.plain import LINK_SECONDS, cancelled, ending_of
from loadtests.simulator.tasks.task import SUCCEEDED, Task
from loadtests.simulator.tasks.voices import is_usable_voice

USUAL_SECONDS: Final = 5.0  # of a film that was asked for without a length
CLIP_SECONDS: Final = 30.0
CHARACTERS_PER_SECOND: Final = 5
REQUIRED: Final = {
    "dh-motion": ("source_video_url",),
    "clip-realman": ("source_video_url",),
    "clip-mixcut": ("audio_url", "materials"),
    "clip-news": ("title", "materials"),
}


def submit(call: Call) -> Reply:
    """`POST /v1/videos/generations`."""
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
    task = call.begin("video", "vid_", seconds, ratio=ratio, language=language)
    return json_reply(_shown(task, call))


def poll(call: Call) -> Reply:
    """`GET /v1/videos/generations/{id}`."""
    return json_reply(_shown(call.task(call.path[0], "video"), call))


def cancel(call: Call) -> Reply:
    """`DELETE /v1/videos/generations/{id}`."""
    return json_reply(_shown(cancelled(call, "video"), call))


def register_asset(call: Call) -> Reply:
    """`POST /v1/assets`: a picture of a real person, checked and registered."""
    for name in ("model", "type", "url"):
        text_of(call.body, name)
    return json_reply({"id": "asset_" + call.book.new_id()})


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    shown: Json = {
        "id": task.id,
        "status": state,
        "model": task.model,
        "created_at": int(task.created_at),
    }
    progress = task.progress(call.now)
    if progress is not None:
        shown["progress"] = progress
    shown |= ending_of(task, call)
    if state == SUCCEEDED:
        shown |= _result(task, call)
    return shown


def _result(task: Task, call: Call) -> dict[str, Any]:
    seconds = task.reported_seconds()
    result: Json = {} if seconds is None else {"duration": seconds}
    if not task.plan.has_result:
        return result
    ratio = ratio_of(task.facts["ratio"])
    file = film_file(task.made_seconds, ratio, task.seed, task.plan.file_bytes)
    result["video_url"], result["expires_at"] = call.link(task, file, LINK_SECONDS, is_renewed=True)
    if task.facts["language"]:
        files = [{"language": task.facts["language"], "url": result["video_url"]}]
        result["output_files"] = files
    return result


def _human(call: Call, model: str, duration: float | None) -> float:
    """Check a digital human; the seconds of its film."""
    body = call.body
    if duration is None:
        raise Refusal(400, "Invalid 'duration': it is required.")
    if model == "dh-avatar":
        if not is_usable_avatar(call, text_of(body, "avatar")):
            raise Refusal(400, "Invalid 'avatar': not found or not ready.")
        if body.get("audio_url") is None:
            if not is_usable_voice(call, text_of(body, "voice")):
                raise Refusal(400, "Invalid 'voice': not found.")
            return max(1.0, len(text_of(body, "text")) / CHARACTERS_PER_SECOND)
        return duration
    for name in REQUIRED.get(model, ("source_video_url", "audio_url")):
        text_of(body, name)
    return duration


def _clip(body: Json, model: str, duration: float | None) -> float:
    """Check a smart edit; the seconds of its film."""
    if find_template(text_of(body, "style_id")) is None:
        raise Refusal(400, "Invalid 'style_id': no such template.")
    for name in REQUIRED.get(model, ()):
        if not body.get(name):
            raise Refusal(400, f"Invalid '{name}': it is required.")
    return duration or CLIP_SECONDS
