"""What an HTTP status, a status word and an error become, in every dialect alike.

The table of status words is the contract's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from channels.dialects.error_body import error_message, message_in
from channels.media.model import MediaResponse
from channels.media.replies import (
    Failed,
    NotFound,
    Polled,
    RateLimited,
    Refused,
    TaskError,
    TaskResult,
    TaskState,
    Trouble,
    Unknown,
)
from channels.media.values import decimal, member, text, word
from channels.media.values import progress as percent
from channels.text import fit

RETRY_AFTER_SECONDS_MAX = 300.0
_RETRY_AFTER = re.compile(r"[0-9]{1,9}|[A-Za-z]{3}, [0-9A-Za-z: ]{10,30}", re.ASCII)
CODE_CHARACTERS_MAX = 64
MESSAGE_CHARACTERS_MAX = 500

# Status words in lower case. Any other word changes nothing.
STATES: Mapping[str, TaskState] = MappingProxyType(
    {
        **dict.fromkeys(("queued", "pending", "submitted", "created", "not_start"), "queued"),
        **dict.fromkeys(("running", "processing", "in_progress"), "running"),
        **dict.fromkeys(("succeeded", "succeed", "success", "completed", "complete"), "succeeded"),
        **dict.fromkeys(("failed", "failure", "fail", "error"), "failed"),
        **dict.fromkeys(("cancelled", "canceled"), "cancelled"),
        "expired": "expired",
    }
)

# Code and message where the upstream gives none.
_ENDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "failed": ("generation_failed", "The generation failed."),
        "cancelled": ("task_cancelled", "The upstream cancelled the task."),
        "expired": ("task_expired", "The task expired at the upstream."),
    }
)
NO_RESULT = TaskError(
    code="no_result", message="The upstream reported success without a result to fetch."
)


def state_of(status: str) -> TaskState | None:
    """What a status word means; None for an unknown one."""
    return STATES.get(status.lower())


def is_ok(response: MediaResponse) -> bool:
    """Whether the status is a success with a body."""
    return 200 <= response.status < 300 and response.status != 204


def refusal(response: MediaResponse) -> Refused | Failed | Unknown:
    """What a submit's response means whose status is no success."""
    status, retry_after = response.status, _passed_on(response.headers.get("retry-after"))
    if status == 504:
        return Unknown(status=504, reason="status 504")
    if 400 <= status < 500:
        message = error_message(response.body)
        return Refused(status=status, message=message, retry_after=retry_after)
    if 500 <= status < 600:
        return Failed(status=status, message=error_message(response.body), retry_after=retry_after)
    return unusable(f"status {status}")


def _passed_on(retry_after: str | None) -> str | None:
    """A `Retry-After` that is passed on to the client: seconds, or a date."""
    return retry_after if retry_after and _RETRY_AFTER.fullmatch(retry_after) else None


def unusable(reason: str) -> Unknown:
    """What a submit's response means that is a success without a result."""
    return Unknown(status=502, reason=fit(reason, MESSAGE_CHARACTERS_MAX))


def catalog_refusal(response: MediaResponse) -> Refused | Failed:
    """What a list's response means whose status is no success."""
    found = refusal(response)
    return Failed(status=found.status) if isinstance(found, Unknown) else found


def poll_trouble(response: MediaResponse) -> RateLimited | NotFound | Trouble:
    """What a poll's response means whose status is no success."""
    if response.status == 429:
        return RateLimited(retry_after_seconds(response.headers.get("retry-after")))
    if response.status == 404:
        return NotFound()
    return Trouble(reason=f"status {response.status}", status=response.status)


def retry_after_seconds(value: str | None) -> float | None:
    """A `Retry-After` in seconds, at most 300; None for a date and for anything else."""
    found = decimal(value)
    return None if found is None else min(float(found), RETRY_AFTER_SECONDS_MAX)


def polled(
    status: Any,
    *,
    result: TaskResult | None,
    seconds_ms: int | None = None,
    progress: Any = None,
    error: Any = None,
    words: Mapping[str, TaskState] = STATES,
) -> Polled:
    """The reply to a poll, by its status word.

    `result` is what the response holds if that word is a success. `progress` and `error` are as the
    upstream sent them.
    """
    status_word = word(status)
    state = words.get(status_word.lower())
    if state == "succeeded":
        if result is None:
            return Polled(state="failed", word=status_word, error=NO_RESULT)
        return Polled(state=state, word=status_word, result=result, seconds_ms=seconds_ms)
    if state is not None and state in _ENDS:
        return Polled(state=state, word=status_word, error=task_error(error, state=state))
    return Polled(state=state, word=status_word, progress=percent(progress))


def task_error(error: Any, *, state: str = "failed") -> TaskError:
    """The error of a task: an object with code and message, a string, or nothing at all."""
    code, message = _ENDS[state]
    code_value = member(error, "code")
    if isinstance(code_value, int) and not isinstance(code_value, bool):
        code_value = str(code_value)[:CODE_CHARACTERS_MAX]
    return TaskError(
        code=(text(code_value, CODE_CHARACTERS_MAX) or "").strip() or code,
        message=message_in(error) or message,
    )
