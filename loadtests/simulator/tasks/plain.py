"""What the endpoints of the plain wire share: the key, the shape of errors, errors of tasks."""

from __future__ import annotations

from typing import Any, Final

from loadtests.simulator.ask import Refusal
from loadtests.simulator.dialects.base import bearer, encode
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.tasks.call import Call, WireRefusal
from loadtests.simulator.tasks.task import SUCCEEDED, Task

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


class PlainWire:
    """The client API of a gateway, spoken by an upstream."""

    honours_keys = True

    def __init__(self, name: str) -> None:
        self.name = name

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def error(self, status: int, message: str, code: int | str | None) -> tuple[int, bytes]:
        usual, kind = ERRORS.get(status, ("upstream_error", "api_error"))
        told = {"message": message, "type": kind, "code": usual if code is None else code}
        return status, encode({"error": told})

    def too_many(self, what: str) -> Refusal:
        dimension = "requests per minute" if what == "minute" else "concurrency"
        return WireRefusal(429, f"Rate limit exceeded: {dimension}.", "rate_limit_exceeded")


def ending_of(task: Task, call: Call) -> dict[str, Any]:
    """The member `error` of a task that is over without success."""
    if not task.is_over(call.now) or task.state(call.now) == SUCCEEDED:
        return {}
    if task.cancelled_at is not None:
        return {"error": {"code": "task_cancelled", "message": "The task was cancelled."}}
    return {"error": task.plan.error}


def cancelled(call: Call, *kinds: str) -> Task:
    """Cancel the task that the path names; raises Refusal 400 where it is over."""
    task = call.task(call.path[0], *kinds)
    if not task.cancel(call.now):
        raise Refusal(400, f"The task {task.id!r} is over.")
    return task
