"""An operator's request that is not carried out. Their wording is in `gw/admin/refusals.py`.

`Invalid` is a fault of the request itself; `Refused`, or an exception of the room that refused
it, is a conflict with the current state.
"""

from __future__ import annotations


class Refused(Exception):
    """A valid request was refused; `code` is the reason in one word."""

    def __init__(self, message: str, code: str, *, http_status: int = 409) -> None:
        super().__init__(message)
        self.code = code
        self.http_status = http_status


class Invalid(Exception):
    """The request is invalid, whatever the state of the database."""
