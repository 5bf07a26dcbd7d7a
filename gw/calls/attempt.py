"""What the attempts of every kind of call share: the request goes out, errors are read.

What comes back of an attempt is a response or a refusal (4xx); everything that another channel may
do better is raised as UpstreamError. Until a response is there nothing has reached the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from actors.clock import Clock
from channels.dialects.error_body import error_members, retry_after_in
from channels.errors import ErrorBody, ErrorMembers, UpstreamError, UpstreamFailed
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire
from channels.redact import Redactor
from gw.calls.attempts import Attempts
from gw.calls.outcome import sendable
from gw.calls.results import UpstreamRefusal

JSON = "application/json"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class BaseUpstream:
    """Sends requests, and reads what refuses them. Holds no state of its own."""

    def __init__(
        self,
        *,
        wire: Wire,
        redactor: Callable[[], Redactor],
        clock: Clock,
        response_bytes_max: int,
    ) -> None:
        self._wire = wire
        self._redactor = redactor
        self._clock = clock
        self._response_bytes_max = response_bytes_max

    async def _open(self, request: UpstreamRequest, attempts: Attempts) -> UpstreamResponse:
        """Send a request; its response is here as far as its head. Raises UpstreamError."""
        response = await self._wire.open(attempts.traced(request))
        request.took_status(response.status)
        attempts.took_response(response)
        return response

    async def _whole(self, response: UpstreamResponse, attempts: Attempts) -> bytes:
        """The whole body of a response. Raises UpstreamError."""
        body = await response.read(self._response_bytes_max)
        attempts.took_whole()
        return body

    async def _refusal(
        self,
        request: UpstreamRequest,
        response: UpstreamResponse,
        *,
        bytes_max: int,
        headers: Mapping[str, str] = NO_HEADERS,
        is_translated: bool = False,
        passes_body: bool = False,
    ) -> UpstreamRefusal:
        """What an error says. Raises UpstreamFailed for a server's.

        `headers` are for the client. `is_translated`: the client is told the message alone, as the
        rest is said in another protocol's words. `passes_body`: it may get the body as it came.
        """
        status = response.status
        try:
            body = await response.read(bytes_max)
        except UpstreamError:
            body = b""  # the status alone has to do
        if passes_body and response.header("content-encoding") not in (None, "", "identity"):
            body = b""  # which was not asked for, and the client may not have asked for it either
        members = error_members(body)
        retry_after = response.header("retry-after") or retry_after_in(members.details)
        is_of_key = request.took_refusal(status, members.message or "")
        if is_translated:
            members = ErrorMembers(members.message)
        error_body = await self._error_body(response, body) if passes_body else None
        if status >= 500:
            raise UpstreamFailed(status, members, retry_after=retry_after, error_body=error_body)
        return UpstreamRefusal(
            status, members, retry_after, error_body, headers, is_of_key=is_of_key
        )

    async def _error_body(self, response: UpstreamResponse, body: bytes) -> ErrorBody | None:
        body = await self._redactor().errors.redact_whole(body)
        return ErrorBody(self._content_type(response), body) if body.strip() else None

    def _content_type(self, response: UpstreamResponse) -> str:
        return sendable(response.header("content-type"), self._redactor()) or JSON
