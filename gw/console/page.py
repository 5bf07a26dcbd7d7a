"""What a page of the console is: one row of the table in `application.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from gw.http.served_path import ServedPath

# Whom something is for: everybody; sessions of operators and of accounts' owners; of operators.
Audience = Literal["everybody", "sessions", "operators"]
_NARROWER: Mapping[Audience, int] = {"everybody": 0, "sessions": 1, "operators": 2}


@dataclass(frozen=True)
class Page(ServedPath):
    """One page. Raises MisstatedRow where the row and its handler do not fit.

    `body_bytes_max` is that of its form.
    """

    _: KW_ONLY
    readers: Audience = "sessions"
    senders: Audience | None = None  # of its form, if not all readers
    of_account: bool = False  # the first group of the path is an account, which a session may see
    is_cached: bool = False  # the same bytes for everybody, by browsers for good; needs no session

    def faults(self) -> Mapping[str, bool]:
        """See ServedPath."""
        senders = self.senders or self.readers
        return {
            **super().faults(),
            "a form states its bytes": ("POST" in self.methods) != (self.body_bytes_max > 0),
            "only a form has senders": self.senders is not None and "POST" not in self.methods,
            "a form is not for more than read it": _NARROWER[senders] < _NARROWER[self.readers],
            "an account is for sessions": self.of_account and self.readers == "everybody",
            "what is cached is for everybody": self.is_cached and self.readers != "everybody",
        }

    def audience(self, method: str) -> Audience:
        """Return whom a request of this method is for."""
        return self.senders or self.readers if method == "POST" else self.readers
