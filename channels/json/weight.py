"""Estimates cheaply how long the event loop would be blocked by a body.

A text or an image of a megabyte is decoded in a millisecond; a megabyte of brackets is half a
million values, and takes a hundred times as long. So everything that may be a value is counted.
"""

from __future__ import annotations

import sys

from channels.json.outline import outline

# Bodies up to this size are light whatever they contain, and are not counted.
LIGHT_BYTES_MAX = 16 * 1024
# Beyond this size merely copying and scanning a body takes too long.
COUNTED_BYTES_MAX = 2 * 1024 * 1024
# Values that are decoded within a few milliseconds, and that are translated in some ten.
READ_VALUES_MAX = 10_000
TRANSLATED_VALUES_MAX = 3_000
# The cost of a reference in a schema, which is resolved and expanded, in values.
REFERENCE_VALUES = 4
# Escaped bytes of a URL that are decoded in the time of one value.
ESCAPES_A_VALUE = 10
# Prefixes of JSON escapes of `"`, `%`, `,`, `[` and `{`, which hide values or escapes.
_HIDING = (b"\\u002", b"\\u005", b"\\u007")
# A long event of a stream is an image, or a long text. No model sends one with more values than
# these; it is not decoded, because that would block the loop.
LONG_EVENT_BYTES = 64 * 1024
EVENT_VALUES_MAX = 50_000


def weight_of(body: bytes) -> int:
    """Return an upper bound of the values in a JSON body; 0 for a small one.

    Long strings without spaces, such as images, do not count; brackets and commas within texts do,
    because they may be the arguments of a call. References of schemas and escapes in URLs are added
    as the number of values that take as long. One scan of the body.
    """
    if len(body) <= LIGHT_BYTES_MAX:
        return 0
    if len(body) > COUNTED_BYTES_MAX:
        return sys.maxsize
    text = outline(body)
    weight = _marks_in(text)
    if b"$ref" in text:
        weight += REFERENCE_VALUES * text.count(b"$ref")
    if b"%" in text:
        weight += text.count(b"%") // ESCAPES_A_VALUE
    if b"\\u00" in text:
        weight += sum(text.count(escape) for escape in _HIDING)
    return weight


def values_in(body: bytes) -> int:
    """Count the values of a body of any size."""
    return _marks_in(outline(body))


def _marks_in(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def is_heavy_event(data: bytes) -> bool:
    """Whether an event of a stream has more values than are decoded."""
    return len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX
