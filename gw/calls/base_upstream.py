"""Shared by the attempts of every kind of call: the request is sent, errors are read.

An attempt returns a response or a refusal (4xx); a failure that another channel may not have is
raised as UpstreamError. Nothing is sent to the client before an attempt has a response.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from actors.clock import Clock
from channels import errors
from channels.dialects.error_body import error_members, retry_after_in
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from gw.calls.endings import sendable
from gw.config.live import LiveConfig


def is_success(status: int) -> bool:
    """Whether the status is that of a response; False for an error (4xx, 5xx).

    Raises UnexpectedStatus for any other: redirects are not followed, and 204 is no response
    (reference 1.8).
    """
    if 200 <= status < 300 and status != 204:
        return True
    if 400 <= status < 600:
        return False
    raise errors.UnexpectedStatus(status)


JSON = "application/json"
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def confirm_key(request: UpstreamRequest) -> None:
    """The upstream has served the request, so its key is good."""
    if request.key is not None and request.key.aside_until:
        request.key.confirmed()


def of_request(refusal: errors.UpstreamRefusal) -> errors.UpstreamRefusal:
    """Return a refusal of the request. Raises CredentialsRefused for one of the channel's key."""
    if not refusal.is_of_key:
        return refusal
    raise errors.CredentialsRefused(
        refusal.status, refusal.members, retry_after=refusal.retry_after, headers=refusal.headers
    )


class BaseUpstream:
    """Sends requests and reads error responses. Stateless."""

    def __init__(
        self,
        *,
        http: UpstreamClient,
        current: LiveConfig,
        clock: Clock,
        response_bytes_max: int,
    ) -> None:
        self._http = http
        self._current = current
        self._clock = clock
        self._response_bytes_max = response_bytes_max

    async def _refusal(
        self,
        request: UpstreamRequest,
        response: UpstreamResponse,
        *,
        bytes_max: int,
        headers: Mapping[str, str] = NO_HEADERS,
        is_translated: bool = False,
        passes_body: bool = False,
    ) -> errors.UpstreamRefusal:
        """Read an error response: return a refusal (4xx), raise UpstreamFailed for 5xx.

        `headers` are for the client. `is_translated`: the client receives the message alone,
        because the other members belong to another protocol. `passes_body`: it may receive the
        body as it is.
        """
        status = response.status
        request.took_status(status)
        try:
            body = await response.read(bytes_max)
        except errors.UpstreamError:
            body = b""  # the status alone is used
        if passes_body and response.header("content-encoding") not in (None, "", "identity"):
            body = b""  # neither the gateway nor, perhaps, the client accepts the encoding
        members = error_members(body)
        retry_after = response.header("retry-after") or retry_after_in(members.details)
        is_of_key = request.took_refusal(status, members, retry_after)
        if is_translated:
            members = errors.ErrorMembers(members.message)
        error_body = await self._error_body(response, body) if passes_body else None
        if status >= 500:
            raise errors.UpstreamFailed(
                status, members, retry_after=retry_after, error_body=error_body
            )
        return errors.UpstreamRefusal(
            status, members, retry_after, error_body, headers, is_of_key=is_of_key
        )

    async def _error_body(self, response: UpstreamResponse, body: bytes) -> errors.ErrorBody | None:
        body = await self._current.redactor.errors.redact_whole(body)
        return errors.ErrorBody(self._content_type(response), body) if body.strip() else None

    def _content_type(self, response: UpstreamResponse) -> str:
        return sendable(response.header("content-type"), self._current.redactor) or JSON
