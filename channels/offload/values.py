"""How many values a body holds, and how many it may.

A model reads each as a token at least, and none reads so many; but each takes memory and time here
that its two or three bytes do not show.
"""

from __future__ import annotations

import re

from channels.errors import InvalidRequest

VALUES_MAX = 500_000

# A string as a whole, without a way back into it, or the mark of one value more.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[,{\[]', re.S)
_QUOTE = ord('"')


def check_values(body: bytes) -> None:
    """Raise InvalidRequest for a body, not yet checked, that holds more than VALUES_MAX.

    They are counted up to there, and only where the body could hold so many.
    """
    if body.count(b",") + body.count(b"{") + body.count(b"[") <= VALUES_MAX:
        return
    count = 0
    for token in _TOKEN.finditer(body):
        if body[token.start()] != _QUOTE:
            count += 1
            if count > VALUES_MAX:
                raise InvalidRequest(f"The request body holds more than {VALUES_MAX} values.")
