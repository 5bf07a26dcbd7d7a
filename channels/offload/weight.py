"""How long the event loop would be busy with a body, told in advance and cheaply.

A text or an image of a megabyte is read in a millisecond; a megabyte of brackets is half a million
values, and takes a hundred times as long. So what is counted is what may be a value.
"""

from __future__ import annotations

import sys

from channels.json.outline import outline

# Bodies up to this size are light whatever is in them: nothing of them is counted.
LIGHT_BYTES_MAX = 16 * 1024
# Beyond this size merely copying and stepping over a body takes too long.
COUNTED_BYTES_MAX = 2 * 1024 * 1024
# Values that are read within a few milliseconds, and that are translated in some ten.
READ_VALUES_MAX = 10_000
TRANSLATED_VALUES_MAX = 3_000


def weight_of(body: bytes) -> int:
    """The most values that a JSON body may hold; 0 for one that is small.

    What is in long strings without spaces, as images are, does not count; what is in texts does,
    as brackets and commas. One walk over the body.
    """
    if len(body) <= LIGHT_BYTES_MAX:
        return 0
    if len(body) > COUNTED_BYTES_MAX:
        return sys.maxsize
    return values_in(body)


def values_in(body: bytes) -> int:
    """Count the values of a body of any size."""
    text = outline(body)
    return text.count(b",") + text.count(b"{") + text.count(b"[")
