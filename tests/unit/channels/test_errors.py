"""Both families of errors: what they say, and what they keep to themselves."""

from __future__ import annotations

import pytest

from channels import errors
from channels.errors import InvalidRequest, UnexpectedStatus, UpstreamError


@pytest.mark.parametrize("kind", UpstreamError.__subclasses__())
def test_upstream_error_says_its_docstring_and_keeps_the_detail(kind: type[UpstreamError]) -> None:
    if kind.__module__ == errors.__name__ and kind is not UnexpectedStatus:
        error = kind("10.0.0.1", 443)
        assert str(error) == (kind.__doc__ or "").split("\n")[0]
        assert error.detail == "10.0.0.1 443"
        assert repr(error) == f"{kind.__name__}('10.0.0.1 443')"
        assert kind().detail == ""


def test_unexpected_status_says_which() -> None:
    error = UnexpectedStatus(304)
    assert (error.status, error.detail, error.is_final) == (304, "status 304", True)


def test_invalid_request_names_the_member() -> None:
    error = InvalidRequest("messages: wrong", "messages")
    assert (str(error), error.message, error.param) == (
        "messages: wrong",
        "messages: wrong",
        "messages",
    )
