"""Avatars: registered, which takes as long as a task, and presets"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, Literal

from loadtests.simulator.ask import Refusal, shape
from loadtests.simulator.tasks.call import SUBMIT, Call, Json, Link
from loadtests.simulator.tasks.plain.wire import Name, plain_wire
from loadtests.simulator.tasks.task import QUEUED, RUNNING, SUCCEEDED, Task

AVATARS = plain_wire("avatars")

AVATAR_PRESETS: Final = {"preset-anna": "Anna", "preset-bao": "Bao", "preset-carla": "Carla"}
_AVATAR = shape(name=Name, source_url=Link, source_kind=Literal["image", "video"] | None)


@AVATARS.serves(SUBMIT, "POST /v1/videos/avatars", _AVATAR)
def register_avatar(call: Call) -> Json:
    reported = {"name": call.body["name"], "source_kind": call.body.get("source_kind", "image")}
    return _avatar(call.begin("avatar", "ava_", reported=reported), call)


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
        **task.facts["reported"],
        "status": words.get(state, state),
        "error": task.reason[1] if task.has_failed(call.now) else None,
        "created_at": created_at,
    }
