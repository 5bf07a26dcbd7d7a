"""The errors of upstreams, and of the client's request.

An upstream error's docstring is its message. A library's own text goes into `detail`, for logs
only: it names hosts and ports, which no client may see. `gw/errors.py` makes status codes and error
bodies from these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct


class ErrorMembers(Struct, frozen=True):
    """The members of an error body. `details` is a JSON object or list of any content."""

    message: str | None = None
    details: Any = None
    param: str | None = None
    words: frozenset[str] = frozenset()  # its code, type, status and reasons: names, not sentences


class ErrorBody(Struct, frozen=True):
    """An upstream's error as received, for endpoints that pass it on unchanged (reference 7.9)."""

    content_type: str
    body: bytes


class UpstreamError(Exception):
    """The upstream gave no usable response."""

    def __init__(self, *details: object) -> None:
        super().__init__((self.__doc__ or "").partition("\n")[0])
        self.detail = " ".join(str(detail) for detail in details)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.detail!r})"


class UpstreamUnreachable(UpstreamError):
    """The upstream could not be connected to, or was lost before the first byte of its response."""


class UpstreamLost(UpstreamUnreachable):
    """The upstream was lost after the request had been sent and before its response began."""


class UpstreamSilent(UpstreamUnreachable):
    """The upstream sent no event, or no head of its response, in time."""


class NoFileLeft(UpstreamUnreachable):
    """The gateway could not connect to the upstream: it has no file left for a connection."""


class CredentialsUnavailable(UpstreamUnreachable):
    """The upstream could not be asked, because the channel's credentials could not be had."""


class UpstreamTimedOut(UpstreamError):
    """The upstream did not answer in time."""


class UpstreamCut(UpstreamError):
    """The connection was lost after the first byte of the response and before its end."""


class UpstreamMalformed(UpstreamError):
    """The upstream's response is not what its protocol promises."""


class UnexpectedStatus(UpstreamError):
    """The upstream answered with a status that is neither a response nor an error."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class UpstreamFailed(UpstreamError):
    """The upstream answered with a server error."""

    def __init__(
        self,
        status: int,
        members: ErrorMembers,
        *,
        retry_after: str | None = None,
        error_body: ErrorBody | None = None,
    ) -> None:
        super().__init__(status)
        self.status = status
        self.members = members
        self.retry_after = retry_after
        self.error_body = error_body


class CredentialsRefused(UpstreamFailed):
    """The upstream refused the channel's own credentials, not what its client sent.

    `headers` are for the client, where no other channel takes the call.
    """

    def __init__(
        self,
        status: int,
        members: ErrorMembers,
        *,
        retry_after: str | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(status, members, retry_after=retry_after)
        self.headers = headers


class Throttled(UpstreamFailed):
    """The upstream refused the request with 429, and its channel says that another may be tried.

    `refusal` is for the client, where no other channel takes the call.
    """

    def __init__(self, refusal: UpstreamRefusal) -> None:
        super().__init__(
            refusal.status,
            refusal.members,
            retry_after=refusal.retry_after,
            error_body=refusal.error_body,
        )
        self.refusal = refusal


class TrialRefused(UpstreamFailed):
    """The channel was tried before its turn, and refused the request."""


class StepUnfit(UpstreamError):
    """A model of a chain could not be told all of the request, so it was not called."""

    def __init__(self, lost: Sequence[str]) -> None:
        super().__init__(*lost)
        self.lost = lost  # the members that it would not be told


class ErrorReported(UpstreamError):
    """The upstream reported an error within its response.

    `status` is for the client: the upstream's own was that of a response. Below 500 it is
    one that the upstream states in another place, and means as others mean theirs.
    """

    retry_after: str | None = None

    def __init__(self, members: ErrorMembers, *, status: int = 502) -> None:
        super().__init__()
        self.members = members
        self.status = status


class UpstreamRefusal(Struct, frozen=True):
    """The upstream refused the request (4xx): a response, to be passed on.

    `headers` are what the client receives a translation. `is_rejected`: nothing was asked to be
    made yet, what it was to be made of was refused. `is_of_key`: it was for the channel's key.
    """

    status: int
    members: ErrorMembers
    retry_after: str | None
    error_body: ErrorBody | None = None
    headers: Mapping[str, str] = {}
    is_rejected: bool = False
    is_of_key: bool = False


class TakesLong(Exception):
    """Work that was begun on the event loop and would hold it up: it belongs to a helper."""


class InvalidRequest(Exception):
    """A request body that its protocol does not allow.

    `message` is for the client. `param` names the member, dotted and indexed as in
    `messages[2].role`; None if the fault is not in one member. `details` are for client libraries
    of the protocol, as JSON values.
    """

    def __init__(
        self,
        message: str,
        param: str | None = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.details = details
