"""What every endpoint of the plain wire has: errors, polls and cancellations of tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, Literal

import msgspec

from loadtests.simulator.ask import Refusal
from loadtests.simulator.tasks.call import Call, Json, Wire
from loadtests.simulator.tasks.task import QUEUED, RUNNING, Task

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
    result = {"message": message, "type": kind, "code": usual if code is None else code}
    return status, {"error": result}


plain_wire = partial(Wire, error=_error, honours_keys=True)


def serve_tasks(wire: Wire, path: str, kind: str, shown: Callable[[Task, Call], Json]) -> None:
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


def begun(task: Task, call: Call, waiting: str | None = None) -> Json:
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
