"""The `shanjian` dialect: avatars and films with them, clips by template, voices.

Of its own: an envelope `{code, data, message}` with status 200 whatever the code; one place to ask
for any task; avatars and voices that are trained by tasks; lists in pages of which each names the
next (`sid`), and which leave out a template's details. Pages here are short, so that
a list takes more than one.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import encode
from loadtests.simulator.tasks.call import (
    DAY,
    SUBMIT,
    Call,
    Json,
    Wire,
    WireRefusal,
    film_file,
    picture_file,
    text_of,
)
from loadtests.simulator.tasks.plain import (
    AVATAR_PRESETS,
    CANVAS,
    CHARACTERS_PER_SECOND,
    CLIP_SECONDS,
    SCENES,
    VOICE_PRESETS,
    find_template,
    preview,
    templates,
)
from loadtests.simulator.tasks.task import CANCELLED, FAILED, QUEUED, RUNNING, SUCCEEDED, Task

GOOD: Final = "Succeed"
BAD_PARAMETER: Final = "Param.Invalid"
PAGE_MAX: Final = 2
NEWS_SECONDS: Final = (5, 300)
CODES: Final = {
    401: "Unauthorized",
    404: "Task.NotFound",
    429: "Request.Limit",
    500: "Service.Error",
    502: "Service.Error",
    503: "Service.Error",
    504: "Failed.Timeout",
}
WORDS: Final = {
    QUEUED: "submitted",
    RUNNING: "processing",
    SUCCEEDED: "succeed",
    CANCELLED: FAILED,
}


class ShanjianWire(Wire):
    """Errors in the envelope of a 200."""

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        told = code or CODES.get(status, BAD_PARAMETER)
        return 200, encode({"code": told, "data": None, "message": message})

    def too_many(self, what: str) -> Refusal:
        code = "Request.Limit" if what == "minute" else "Concurrency.Limit"
        return WireRefusal(429, "The limit of this account is reached.", code)


SHANJIAN: Final = ShanjianWire("shanjian")


@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/video")
def avatar_video(call: Call) -> Json:
    body = call.body
    if not _is_usable(call, text_of(body, "virtualmanId"), "avatar", AVATAR_PRESETS):
        raise Refusal(400, "virtualmanId is not usable")
    if body.get("audioUrl") is not None:
        text_of(body, "audioUrl")
        return _begun(call, "video", CLIP_SECONDS)
    if not _is_usable(call, text_of(body, "speakerId"), "voice", VOICE_PRESETS):
        raise Refusal(400, "speakerId is not usable")
    return _begun(call, "video", max(1.0, len(text_of(body, "text")) / CHARACTERS_PER_SECOND))


@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/realman_broadcast")
def realman(call: Call) -> Json:
    return _clip(call, "videoUrl")


@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/broadcast_mixcut")
def mixcut(call: Call) -> Json:
    return _clip(call, "audioUrl", needs_materials=True)


@SHANJIAN.serves(SUBMIT, "POST /v1/clip/video/news_mixcut")
def news(call: Call) -> Json:
    rules = call.body.get("processRules") or {}
    seconds = rules.get("videoDuration", CLIP_SECONDS) if isinstance(rules, dict) else None
    low, high = NEWS_SECONDS
    if not isinstance(seconds, int | float) or not low <= seconds <= high:
        raise Refusal(400, "processRules.videoDuration is out of range")
    return _clip(call, "title", needs_materials=True, seconds=float(seconds))


@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/image/train")
def train_image(call: Call) -> Json:
    text_of(call.body, "imageUrl")
    return _begun(call, "avatar")


@SHANJIAN.serves(SUBMIT, "POST /v1/virtualman/fast/train")
def train_video(call: Call) -> Json:
    text_of(call.body, "videoUrl")
    return _begun(call, "avatar")


@SHANJIAN.serves(SUBMIT, "POST /v1/voice/train")
def train_voice(call: Call) -> Json:
    for name in ("audioUrl", "model", "language"):
        text_of(call.body, name)
    return _begun(call, "voice")


@SHANJIAN.serves("poll", "GET /v1/task/info", query="taskId")
def poll(call: Call) -> Json:
    task = call.task(call.path[0])
    state = task.state(call.now)
    shown: Json = {"taskId": task.id, "status": WORDS.get(state, state), "result": None}
    if state == SUCCEEDED:
        shown["result"] = _result(task, call) if task.plan.has_result else {}
    elif task.is_over(call.now):
        error = task.plan.error
        told = error if isinstance(error, dict) else {"message": error}
        shown |= {"errorCode": told.get("code"), "errorMessage": told.get("message")}
    return _good(shown)


@SHANJIAN.serves("catalog", "GET /v1/clip/template")
def listed(call: Call) -> Json:
    query = call.exchange.parameters()
    scene, size, sid = query.get("scene", ""), query.get("pageSize", "20"), query.get("sid", "0")
    if scene not in SCENES or not (size.isdecimal() and sid.isdecimal() and 1 <= int(size) <= 100):
        raise Refusal(400, "scene, pageSize or sid is invalid")
    every, start = templates(scene), int(sid)
    end = start + min(int(size), PAGE_MAX)
    page = [
        {"id": item["id"], "name": item["title"], "coverUrl": _cover(call, item["id"])}
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
    shown |= {"coverUrl": _cover(call, item["id"]), "videoStructInfo": {"editInfo": layers}}
    return _good(shown)


@SHANJIAN.serves("catalog", "GET /v1/assets/virtualman/common")
def preset_avatars(call: Call) -> Json:
    found = [{"virtualmanId": one, "name": name} for one, name in AVATAR_PRESETS.items()]
    return _good({"results": found})


@SHANJIAN.serves("catalog", "GET /v1/assets/voice/common")
def preset_voices(call: Call) -> Json:
    found = [
        {
            "speakerId": one,
            "name": name,
            "language": language,
            "demoUrl": preview(call, one),
        }
        for one, (name, language) in VOICE_PRESETS.items()
    ]
    return _good({"results": found})


def _good(data: object) -> Json:
    return {"code": GOOD, "data": data, "message": ""}


def _begun(call: Call, kind: str, seconds: float = 0.0) -> Json:
    return _good({"taskId": call.begin(kind, "", seconds).id})


def _clip(
    call: Call, required: str, *, needs_materials: bool = False, seconds: float = CLIP_SECONDS
) -> Json:
    body = call.body
    text_of(body, required)
    if find_template(text_of(body, "styleId")) is None:
        raise Refusal(400, "styleId does not exist")
    materials = body.get("materials", [])
    if not isinstance(materials, list) or (needs_materials and not materials):
        raise Refusal(400, "materials are required")
    for item in materials:
        if not isinstance(item, dict) or item.get("type") not in ("image", "video"):
            raise Refusal(400, "materials: type is image or video")
        text_of(item, "fileUrl")
    return _begun(call, "video", seconds)


def _is_usable(call: Call, one: str, kind: str, presets: Container[str]) -> bool:
    return call.is_usable(one, kind, presets, one.removesuffix(_TRAINED))


_TRAINED = "-trained"  # what a task has trained is called otherwise than the task


def _result(task: Task, call: Call) -> Json:
    if task.kind == "avatar":
        return {"virtualmanId": task.id + _TRAINED}
    if task.kind == "voice":
        return {"speakerId": task.id + _TRAINED}
    file = film_file(task.made_seconds, (9, 16), task.seed, task.plan.file_bytes)
    seconds = task.reported_seconds()
    result: Json = {} if seconds is None else {"duration": seconds}
    return {"videoUrl": call.link(task, file, DAY)[0], **result}


def _cover(call: Call, name: str) -> str:
    return call.files.link(call.base, picture_file(sum(name.encode())), name, call.now + DAY)
