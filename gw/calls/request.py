"""The request of a call: what was read of it, its bytes, and what a channel is sent for it.

A body of many values is worked on in a helper process (`channels/offload`): it would hold up the
loop. Where that is done is decided here, by the weight of the body, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from channels.dialects.dialect import Hosted
from channels.errors import TakesLong
from channels.json import READ_VALUES_MAX, JsonObject
from channels.offload.jobs import passthrough_body, passthrough_job, submission_body
from channels.offload.pool import Helpers, OffloadFailed, OffloadFull
from channels.offload.process import Job, JobTooLong
from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError

_TOO_MANY_LARGE = "There are too many large requests at once: try again in a moment."
_TOO_LONG = "The request takes too long to be read or translated: send fewer values."


class ParsedRequest(Protocol):
    """A checked request of any protocol; `object` is the body as it came."""

    @property
    def object(self) -> JsonObject: ...


async def offloaded(
    helpers: Helpers, job: Job, body: bytes, *arguments: Any
) -> tuple[Any, bytes | None]:
    """Have a job done in a helper process. Raises what the job raises, or GatewayError."""
    try:
        return await helpers.run(job, body, *arguments)
    except JobTooLong as error:
        raise GatewayError(INVALID_REQUEST, _TOO_LONG) from error
    except (OffloadFull, OffloadFailed) as error:
        raise GatewayError(NO_CHANNEL_AVAILABLE, _TOO_MANY_LARGE) from error


class LargeSubmission:
    """The body of a request to a media upstream, where the request is here without it.

    `reading` and its arguments are what `channels/offload/jobs.py` reads it by.
    """

    def __init__(
        self,
        body: bytes,
        helpers: Helpers,
        reading: Callable[..., Any],
        arguments: tuple[Any, ...],
    ) -> None:
        self._body = body
        self._helpers = helpers
        self._reading = reading
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"<LargeSubmission {len(self._body)} bytes>"

    async def body_for(self, wire: str, upstream_model: str, *, idempotency_key: str) -> bytes:
        """The body for a channel of this wire. Raises GatewayError."""
        about = (self._reading, self._arguments, wire, upstream_model, idempotency_key)
        _, written = await offloaded(self._helpers, submission_body, self._body, *about)
        assert written is not None
        return written


class ClientRequest:
    """One checked request; `weight` is the number of its values, at most.

    `path` is what its reader took from the request's path.
    """

    def __init__(
        self,
        parsed: ParsedRequest,
        *,
        protocol: str,
        body: bytes,
        weight: int,
        helpers: Helpers,
        path: Mapping[str, Any] | None = None,
    ) -> None:
        self.protocol = protocol
        self._parsed = parsed
        self._body = body
        self._weight = weight
        self._helpers = helpers
        self._path = path or {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.protocol} {len(self._body)} bytes>"

    def forget(self) -> None:
        """Let go of its bytes: no other channel is asked any more."""
        self._body = b""
        self._parsed.object.forget()

    async def passthrough_body(
        self, options: Mapping[str, Any], hosted: Hosted | None = None
    ) -> bytes:
        """The body for a channel of the client's own protocol. Raises InvalidRequest."""
        if self._weight <= READ_VALUES_MAX:
            return passthrough_body(self._parsed, self.protocol, options, hosted)
        _, written = await self.offloaded(
            passthrough_job, self.protocol, self._path, options, hosted
        )
        return self._body if written is None else written

    async def done(self, job: Job, *arguments: Any, values_max: int) -> tuple[Any, bytes | None]:
        """Have a job done on the body: here, unless it has more values than these or takes long."""
        if self._weight <= values_max:
            try:
                return job(self._body, *arguments, is_here=True)
            except TakesLong:
                pass
        return await self.offloaded(job, *arguments)

    async def offloaded(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Have a job done on the body in a helper process."""
        return await offloaded(self._helpers, job, self._body, *arguments)
