"""The outcomes of HTTP statuses, status words and errors, the same in every dialect.

The table of status words: reference 7.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from channels.dialects.error_body import error_message, message_in
from channels.media import replies, results, values
from channels.media.model import MediaResponse
from channels.storable_text import fit

RETRY_AFTER_SECONDS_MAX = 300.0
CODE_CHARACTERS_MAX = 64
MESSAGE_CHARACTERS_MAX = 500

# Status words in lower case. Any other word leaves the state unchanged.
STATES: Mapping[str, replies.TaskState] = MappingProxyType(
    {
        **dict.fromkeys(("queued", "pending", "submitted", "created", "not_start"), "queued"),
        **dict.fromkeys(("running", "processing", "in_progress"), "running"),
        **dict.fromkeys(("succeeded", "succeed", "success", "completed", "complete"), "succeeded"),
        **dict.fromkeys(("failed", "failure", "fail", "error"), "failed"),
        **dict.fromkeys(("cancelled", "canceled"), "cancelled"),
        "expired": "expired",
    }
)

# The default codes and messages.
_ENDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "failed": ("generation_failed", "The generation failed."),
        "cancelled": ("task_cancelled", "The upstream cancelled the task."),
        "expired": ("task_expired", "The task expired at the upstream."),
    }
)
NO_RESULT = replies.TaskError(
    code="no_result", message="The upstream reported success without a result to fetch."
)


def state_of(status: str) -> replies.TaskState | None:
    """Return the state of a status word; None for an unknown one."""
    return STATES.get(status.lower())


def is_ok(response: MediaResponse) -> bool:
    """Whether the status is a success with a body."""
    return 200 <= response.status < 300 and response.status != 204


def refusal(response: MediaResponse) -> replies.Refused | replies.Failed | replies.Unknown:
    """Return the reply to a submit whose status is no success."""
    status, retry_after = response.status, response.headers.get("retry-after")
    if status == 504:
        return replies.Unknown(status=504, reason="status 504")
    if 400 <= status < 500:
        message = error_message(response.body)
        return replies.Refused(status=status, message=message, retry_after=retry_after)
    if 500 <= status < 600:
        return replies.Failed(
            status=status, message=error_message(response.body), retry_after=retry_after
        )
    return unusable(f"status {status}")


def unusable(reason: str) -> replies.Unknown:
    """Return the reply to a submit that is a success without a result."""
    return replies.Unknown(status=502, reason=fit(reason, MESSAGE_CHARACTERS_MAX))


def catalog_refusal(response: MediaResponse) -> replies.Refused | replies.Failed:
    """Return the reply to a request for a list whose status is no success."""
    found = refusal(response)
    return replies.Failed(status=found.status) if isinstance(found, replies.Unknown) else found


def poll_trouble(
    response: MediaResponse,
) -> replies.RateLimited | replies.NotFound | replies.Trouble | replies.Unusable | None:
    """Return the reply to a poll without success, or too large; None if it can be parsed."""
    if is_ok(response):
        return replies.Unusable(reason="too large") if values.is_too_large(response) else None
    if response.status == 429:
        return replies.RateLimited(retry_after_seconds(response.headers.get("retry-after")))
    if response.status == 404:
        return replies.NotFound()
    return replies.Trouble(reason=f"status {response.status}", status=response.status)


def retry_after_seconds(value: str | None) -> float | None:
    """Return a `Retry-After` in seconds, at most 300; None for a date and any other value."""
    found = values.decimal(value)
    return None if found is None else min(float(found), RETRY_AFTER_SECONDS_MAX)


def polled(
    status: object,
    *,
    result: results.TaskResult | None,
    seconds_ms: int | None = None,
    progress: object = None,
    error: object = None,
    words: Mapping[str, replies.TaskState] = STATES,
) -> replies.Polled:
    """Return the reply to a poll by its status word.

    `result`: the response's, if that word is a success. `progress` and `error` are the upstream's
    values.
    """
    status_word = values.word(status)
    state = words.get(status_word.lower())
    if state == "succeeded":
        if result is None:
            return replies.Polled(state="failed", word=status_word, error=NO_RESULT)
        return replies.Polled(state=state, word=status_word, result=result, seconds_ms=seconds_ms)
    if state is not None and state in _ENDS:
        return replies.Polled(state=state, word=status_word, error=task_error(error, state=state))
    return replies.Polled(state=state, word=status_word, progress=values.progress_percent(progress))


def task_error(error: object, *, state: str = "failed") -> replies.TaskError:
    """Return the error of a task, from an object with code and message, a string, or nothing."""
    code, message = _ENDS[state]
    code_value = values.member(error, "code")
    if isinstance(code_value, int) and not isinstance(code_value, bool):
        code_value = str(code_value)[:CODE_CHARACTERS_MAX]
    return replies.TaskError(
        code=(values.text(code_value, CODE_CHARACTERS_MAX) or "").strip() or code,
        message=message_in(error) or message,
    )
