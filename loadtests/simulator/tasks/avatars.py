"""The plain wire's avatars: registered, which takes as long as a task, and presets."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import Call, Json, Reply, json_reply, text_of
from loadtests.simulator.tasks.plain import ending_of
from loadtests.simulator.tasks.task import SUCCEEDED, Task

PRESETS: Final = {"preset-anna": "Anna", "preset-bao": "Bao", "preset-carla": "Carla"}
NAME_MAX: Final = 20
LISTED_MAX: Final = 200


def register(call: Call) -> Reply:
    """`POST /v1/videos/avatars`."""
    name, source = text_of(call.body, "name"), text_of(call.body, "source_url")
    kind = text_of(call.body, "source_kind", "image")
    if len(name) > NAME_MAX or kind not in ("image", "video"):
        raise Refusal(400, "Invalid 'name' or 'source_kind'.")
    if not source.startswith(("http://", "https://")):
        raise Refusal(400, "Invalid 'source_url': a public http(s) link is required.")
    return json_reply(_shown(call.begin("avatar", "ava_", name=name, source_kind=kind), call))


def poll(call: Call) -> Reply:
    """`GET /v1/videos/avatars/{id}`."""
    return json_reply(_shown(call.task(call.path[0], "avatar"), call))


def listed(call: Call) -> Reply:
    """`GET /v1/videos/avatars`."""
    found = call.book.of_wire("avatars", call.api_key)[:LISTED_MAX]
    return json_reply({"avatars": [_shown(task, call) for task in found]})


def presets(call: Call) -> Reply:
    """`GET /v1/videos/avatars/presets`."""
    found = [{"id": preset, "name": name} for preset, name in PRESETS.items()]
    return json_reply({"avatars": found})


def delete(call: Call) -> Reply:
    """`DELETE /v1/videos/avatars/{id}`."""
    task = call.task(call.path[0], "avatar")
    if not task.is_over(call.now):
        raise Refusal(400, "The avatar is still pending.")
    call.book.remove(task)
    return json_reply({"id": task.id, "deleted": True})


def is_usable_avatar(call: Call, avatar: str) -> bool:
    """Whether a film may be made with it: a preset, or the key's own and ready."""
    task = call.book.find(avatar, call.api_key)
    is_own = task is not None and task.kind == "avatar" and task.state(call.now) == SUCCEEDED
    return avatar in PRESETS or is_own


def _shown(task: Task, call: Call) -> Json:
    state = task.state(call.now)
    ending = ending_of(task, call).get("error")
    words = {SUCCEEDED: "ready", "queued": "pending", "running": "pending"}
    return {
        "id": task.id,
        "name": task.facts["name"],
        "source_kind": task.facts["source_kind"],
        "status": words.get(state, state),
        "error": ending.get("message") if isinstance(ending, dict) else ending,
        "created_at": datetime.fromtimestamp(task.created_at, UTC).isoformat(timespec="seconds"),
    }
