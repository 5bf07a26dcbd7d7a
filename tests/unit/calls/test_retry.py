"""The table of what may be asked of another channel, row by row."""

from channels.errors import (
    ErrorMembers,
    ErrorReported,
    StepUnfit,
    UnexpectedStatus,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamLost,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from gw.calls.retry import retry_of_chat, retry_of_pieces, retry_of_submits
from tests.support.rows import each

ROWS = {
    "no connection": (UpstreamUnreachable(), "next_channel", "next_channel", "next_channel"),
    "lost": (UpstreamLost(), "next_channel", "next_channel", "unknown"),
    "5xx": (UpstreamFailed(503, ErrorMembers()), "next_channel", "next_channel", "next_channel"),
    "504": (UpstreamFailed(504, ErrorMembers()), "next_channel", "next_channel", "unknown"),
    "cut": (UpstreamCut(), "next_channel", "unknown", "unknown"),
    "unusable": (UpstreamMalformed(), "next_channel", "unknown", "unknown"),
    "an error within": (ErrorReported(ErrorMembers()), "next_channel", "unknown", "final"),
    "204": (UnexpectedStatus(204), "final", "unknown", "unknown"),
    "302": (UnexpectedStatus(302), "final", "unknown", "unknown"),
    "no answer in time": (UpstreamTimedOut(), "final", "final", "unknown"),
}


@each("error, of_chat, of_pieces, of_submits", ROWS.values())
def test_what_follows_a_failed_attempt(
    error: UpstreamError, of_chat: str, of_pieces: str, of_submits: str
) -> None:
    found = retry_of_chat(error), retry_of_pieces(error), retry_of_submits(error)
    assert found == (of_chat, of_pieces, of_submits)


def test_every_kind_of_error_has_a_row() -> None:
    # A model of a chain that was not called has failed at nothing.
    kinds = {*UpstreamError.__subclasses__(), UpstreamLost} - {StepUnfit}
    assert {type(row[0]) for row in ROWS.values()} == kinds
