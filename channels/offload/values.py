"""How many values a body holds, and how many it may.

A model reads each as a token at least, and none reads so many; but each takes memory and time here
that its two or three bytes do not show.
"""

from __future__ import annotations

import re

from channels.errors import InvalidRequest

VALUES_MAX = 500_000

# Strings are stepped over, without a way back into them: a million escapes must not take room.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.S)


def check_values(body: bytes) -> None:
    """Raise InvalidRequest for a body, not yet checked, that holds more than VALUES_MAX."""
    if _marks(body) > VALUES_MAX and _marks(_STRING.sub(b"", body)) > VALUES_MAX:
        raise InvalidRequest(f"The request body holds more than {VALUES_MAX} values.")


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")
