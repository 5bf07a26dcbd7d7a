"""The table of what may be asked of another channel, row by row."""

from __future__ import annotations

import pytest

from channels.errors import (
    ErrorMembers,
    ErrorReported,
    UnexpectedStatus,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from gw.calls.retries import retry_of_chat, retry_of_pieces

ROWS = {
    "no connection": (UpstreamUnreachable(), "next_channel", "next_channel"),
    "5xx": (UpstreamFailed(503, ErrorMembers()), "next_channel", "next_channel"),
    "cut": (UpstreamCut(), "next_channel", "unknown"),
    "unusable": (UpstreamMalformed(), "next_channel", "unknown"),
    "an error within": (ErrorReported(ErrorMembers()), "next_channel", "unknown"),
    "204": (UnexpectedStatus(204), "final", "unknown"),
    "302": (UnexpectedStatus(302), "final", "unknown"),
    "no answer in time": (UpstreamTimedOut(), "final", "final"),
}


@pytest.mark.parametrize(("error", "of_chat", "of_pieces"), ROWS.values(), ids=ROWS.keys())
def test_what_follows_a_failed_attempt(error: UpstreamError, of_chat: str, of_pieces: str) -> None:
    assert (retry_of_chat(error), retry_of_pieces(error)) == (of_chat, of_pieces)


def test_every_kind_of_error_has_a_row() -> None:
    assert {type(row[0]) for row in ROWS.values()} == set(UpstreamError.__subclasses__())
