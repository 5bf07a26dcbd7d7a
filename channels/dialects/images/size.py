"""The size of an image as the protocol writes it: `WxH` in pixels."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(\d{1,6})[xX](\d{1,6})", re.ASCII)


def pixels_of(size: str) -> int | None:
    """The area of a `WxH` size in pixels; None for any other way of saying how large."""
    found = _SIZE.fullmatch(size)
    return int(found[1]) * int(found[2]) or None if found else None
