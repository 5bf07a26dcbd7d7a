"""The `shanjian` dialect: avatars and films with them, clips by template, voices.

Of its own: an envelope `{code, data, message}` with status 200 whatever the code; one place to ask
for any task; avatars and voices that are trained by tasks; lists in pages of which each names the
next (`sid`), and which leave out a template's details. Pages here are short, so that
a list takes more than one.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Annotated, Any, Final, Literal

import msgspec

from loadtests.simulator.ask import Refusal, many, shape
from loadtests.simulator.tasks.call import DAY, SUBMIT, Call, Json, Text, Wire, film_of
from loadtests.simulator.tasks.plain.avatars import AVATAR_PRESETS
from loadtests.simulator.tasks.plain.films import CHARACTERS_PER_SECOND, CLIP_SECONDS
from loadtests.simulator.tasks.plain.templates import (
    CANVAS,
    SCENES,
    cover,
    find_template,
    templates,
)
from loadtests.simulator.tasks.plain.voices import VOICE_PRESETS, preview
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED

PAGE_MAX: Final = 2
CODES: Final = {
    401: "Unauthorized",
    404: "Task.NotFound",
    429: "Request.Limit",
    500: "Service.Error",
    502: "Service.Error",
    503: "Service.Error",
    504: "Failed.Timeout",
}
WORDS: Final = {QUEUED: "submitted", RUNNING: "processing", SUCCEEDED: "succeed", CANCELLED: FAILED}
_TRAINED: Final = "-trained"  # what a task has trained is called otherwise than the task


def _error(status: int, message: str, code: int | str | None) -> tuple[int, Json]:
    """In the envelope of a 200."""
    return 200, {
        "code": code or CODES.get(status, "Param.Invalid"),
        "data": None,
        "message": message,
    }


SHANJIAN: Final = Wire("shanjian", _error)
_AVATAR_FILM = shape(
    virtualmanId=Text, audioUrl=Text | None, speakerId=Text | None, text=Text | None
)


@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/video", _AVATAR_FILM)
def avatar_video(call: Call) -> Json:
    body = call.body
    if not _is_usable(call, body["virtualmanId"], "avatar", AVATAR_PRESETS):
        raise Refusal(400, "virtualmanId is not usable")
    if body.get("audioUrl") is not None:
        return _begun(call, "video", CLIP_SECONDS)
    if not _is_usable(call, body.get("speakerId", ""), "voice", VOICE_PRESETS):
        raise Refusal(400, "speakerId is not usable")
    return _begun(call, "video", max(1.0, len(body["text"]) / CHARACTERS_PER_SECOND))


_Material = shape(type=Literal["image", "video"], fileUrl=Text)
_MATERIALS: dict[str, Any] = {
    "styleId": Text,
    "materials": Annotated[many(_Material), msgspec.Meta(min_length=1)],
}
_Rules = shape(videoDuration=Annotated[float, msgspec.Meta(ge=5, le=300)] | None)
_NEWS = shape(title=Text, processRules=_Rules | None, **_MATERIALS)
_REALMAN = shape(videoUrl=Text, styleId=Text, materials=many(_Material) | None)


@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/realman_broadcast", _REALMAN)
@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/broadcast_mixcut", shape(audioUrl=Text, **_MATERIALS))
@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/news_mixcut", _NEWS)
def clip(call: Call) -> Json:
    if find_template(call.body["styleId"]) is None:
        raise Refusal(400, "styleId does not exist")
    rules = call.body.get("processRules") or {}
    return _begun(call, "video", float(rules.get("videoDuration", CLIP_SECONDS)))


@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/image/train", shape(imageUrl=Text))
@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/fast/train", shape(videoUrl=Text))
def train_avatar(call: Call) -> Json:
    return _begun(call, "avatar")


@SHANJIAN.serves(SUBMIT, "POST /v1/voice/train", shape(audioUrl=Text, model=Text, language=Text))
def train_voice(call: Call) -> Json:
    return _begun(call, "voice")


@SHANJIAN.serves("poll", "GET /v1/task/info", query="taskId")
def poll(call: Call) -> Json:
    task = call.task()
    state = task.state(call.now)
    shown: Json = {"taskId": task.id, "status": WORDS.get(state, state), "result": None}
    if task.has_failed(call.now):
        shown["errorCode"], shown["errorMessage"] = task.reason
    elif state == SUCCEEDED and task.kind == "video":
        link, _ = call.link(task, film_of(task), DAY)
        shown["result"] = {"videoUrl": link, "duration": task.reported_seconds}
    elif state == SUCCEEDED:
        name = "virtualmanId" if task.kind == "avatar" else "speakerId"
        shown["result"] = {name: task.id + _TRAINED}
    return _good(shown)


@SHANJIAN.serves("catalog", "GET /v1/clip/template")
def listed(call: Call) -> Json:
    query = call.exchange.parameters()
    size, start = int(query.get("pageSize", "20")), int(query.get("sid", "0"))
    if query.get("scene") not in SCENES or not 1 <= size <= 100:
        raise Refusal(400, "scene or pageSize is invalid")
    every, end = templates(query["scene"]), start + min(size, PAGE_MAX)
    page = [
        {"id": item["id"], "name": item["title"], "coverUrl": cover(call, item["id"])}
        for item in every[start:end]
    ]
    return _good({"results": page, "sid": str(end) if end < len(every) else ""})


@SHANJIAN.serves("catalog", "GET /v1/clip/template/detail/*")
def detail(call: Call) -> Json:
    item = find_template(call.path[0])
    if item is None:
        raise Refusal(400, "The template does not exist.")
    layers: Json = {
        "canvas": CANVAS,
        "headerLayer": {"id": "header", "name": "Title"} if item["has_title"] else {},
        "ipLayer": {"id": "ip", "name": "Persona"} if item["has_persona"] else {},
        "videoLayer": {"id": "video", "name": "Video"},
    }
    shown = {"id": item["id"], "name": item["title"], "scene": item["scene"]}
    shown |= {"coverUrl": cover(call, item["id"]), "videoStructInfo": {"editInfo": layers}}
    return _good(shown)


@SHANJIAN.serves("catalog", "GET /v1/assets/virtualman/common")
def preset_avatars(call: Call) -> Json:
    found = [{"virtualmanId": one, "name": name} for one, name in AVATAR_PRESETS.items()]
    return _good({"results": found})


@SHANJIAN.serves("catalog", "GET /v1/assets/voice/common")
def preset_voices(call: Call) -> Json:
    found = [
        {"speakerId": one, "name": name, "language": language, "demoUrl": preview(call, one)}
        for one, (name, language) in VOICE_PRESETS.items()
    ]
    return _good({"results": found})


def _good(data: object) -> Json:
    return {"code": "Succeed", "data": data, "message": ""}


def _begun(call: Call, kind: str, seconds: float = 0.0) -> Json:
    return _good({"taskId": call.begin(kind, "", seconds).id})


def _is_usable(call: Call, one: str, kind: str, presets: Container[str]) -> bool:
    return call.is_usable(one, kind, presets, one.removesuffix(_TRAINED))
