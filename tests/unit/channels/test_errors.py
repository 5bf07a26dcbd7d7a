"""Both families of errors: what they say, and what they keep to themselves."""

from __future__ import annotations

from channels.errors import (
    ErrorMembers,
    ErrorReported,
    InvalidRequest,
    UnexpectedStatus,
    UpstreamError,
    UpstreamFailed,
)
from tests.support.rows import each

SAYS_MORE = (UnexpectedStatus, UpstreamFailed, ErrorReported)
PLAIN = [kind for kind in UpstreamError.__subclasses__() if kind not in SAYS_MORE]


@each("kind", PLAIN)
def test_upstream_error_says_its_docstring_and_keeps_the_detail(kind: type[UpstreamError]) -> None:
    error = kind("10.0.0.1", 443)
    assert str(error) == (kind.__doc__ or "").split("\n")[0]
    assert error.detail == "10.0.0.1 443"
    assert repr(error) == f"{kind.__name__}('10.0.0.1 443')"
    assert kind().detail == ""


def test_error_of_the_upstreams_own_says_what_it_was_told() -> None:
    members = ErrorMembers("No such size.")
    failed = UpstreamFailed(503, members, retry_after="3")
    assert (str(failed), failed.detail) == ("The upstream answered with a server error.", "503")
    assert (failed.status, failed.members, failed.retry_after) == (503, members, "3")
    reported = ErrorReported(members)
    assert (reported.status, reported.members, reported.retry_after) == (502, members, None)


def test_unexpected_status_says_which() -> None:
    error = UnexpectedStatus(304)
    assert (error.status, error.detail) == (304, "status 304")


def test_invalid_request_names_the_member() -> None:
    error = InvalidRequest("messages: wrong", "messages")
    assert (str(error), error.message, error.param) == (
        "messages: wrong",
        "messages: wrong",
        "messages",
    )
