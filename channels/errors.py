"""What can be wrong on either side of the gateway: the upstream's errors, and the client's request.

An upstream error's docstring is its message. What a library said goes into `detail`, for logs
only: it names hosts and ports, and no client may see those. Status codes and error bodies are made
of these in `gw/errors/table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class UpstreamError(Exception):
    """The upstream gave no usable answer.

    `is_final`: no other channel is tried after it, in one attempt (an instance's) or ever (a
    class's).
    """

    is_final = False

    def __init__(self, *details: object) -> None:
        super().__init__((self.__doc__ or "").partition("\n")[0])
        self.detail = " ".join(str(detail) for detail in details)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.detail!r})"


class UpstreamUnreachable(UpstreamError):
    """The upstream could not be connected to, or was lost before the first byte of its answer."""


class UpstreamTimedOut(UpstreamError):
    """The upstream did not answer in time."""

    is_final = True


class UpstreamCut(UpstreamError):
    """The connection was lost after the first byte of the answer and before its end."""


class UpstreamMalformed(UpstreamError):
    """The upstream's answer is not what its protocol promises."""


class UnexpectedStatus(UpstreamError):
    """The upstream answered with a status that is neither an answer nor an error."""

    is_final = True

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class InvalidRequest(Exception):
    """A request body that its protocol does not allow.

    `message` is for the client. `param` names the member, dotted and indexed as in
    `messages[2].role`; None when the fault is not in one member. `details` is what client
    libraries of the protocol act on, as JSON values.
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
