"""Work on bodies of many values, in a helper process (`channels/offload`).

It would block the loop; only this file decides it, by the weight of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from channels.offload.jobs import submission_body
from channels.offload.pool import Helpers, OffloadFailed, OffloadFull
from channels.offload.process import Job, JobTooLong
from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError

_TOO_MANY_LARGE = "There are too many large requests at once: try again in a moment."
_TOO_LONG = "The request takes too long to be read or translated: send fewer values."


async def offloaded(
    helpers: Helpers, job: Job, body: bytes, *arguments: Any
) -> tuple[Any, bytes | None]:
    """Run a job in a helper process. Raises the errors of the job, or GatewayError."""
    try:
        return await helpers.run(job, body, *arguments)
    except JobTooLong as error:
        raise GatewayError(INVALID_REQUEST, _TOO_LONG) from error
    except (OffloadFull, OffloadFailed) as error:
        raise GatewayError(NO_CHANNEL_AVAILABLE, _TOO_MANY_LARGE) from error


class LargeSubmission:
    """The body of a media submission whose request is parsed in a helper process only.

    `reading` and `arguments`: the parser of the request, and its arguments after the body.
    """

    def __init__(
        self,
        body: bytes,
        helpers: Callable[[], Helpers],
        reading: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self._body = body
        self._helpers = helpers
        self._reading = reading
        self._arguments = arguments

    async def body_for(self, dialect: str, upstream_model: str, *, idempotency_key: str) -> bytes:
        """Return the body for a channel of this dialect. Raises GatewayError."""
        about = (self._reading, self._arguments, dialect, upstream_model, idempotency_key)
        _, written = await offloaded(self._helpers(), submission_body, self._body, *about)
        assert written is not None
        return written


def no_helpers() -> Helpers:
    raise AssertionError("a form was read before, and is not edited in a helper process")
