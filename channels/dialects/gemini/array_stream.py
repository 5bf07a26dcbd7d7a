"""A gemini stream as one JSON array, for clients that did not request `alt=sse`.

The upstream always sends server-sent events; their data are the array's elements, byte for byte
(reference 2.1). A stream that is cut leaves the array open, so its client can detect it.
"""

from __future__ import annotations

CONTENT_TYPE = "application/json"


class ArrayFraming:
    """Frames the events of one stream, in order."""

    __slots__ = ("_has_begun",)

    def __init__(self) -> None:
        self._has_begun = False

    def element(self, data: bytes) -> bytes:
        """Return the bytes that add an element, or the elements of an array such as an error's."""
        text = data.strip()
        if text.startswith(b"[") and text.endswith(b"]"):
            text = text[1:-1].strip()
            if not text:
                return b""
        opening = b",\r\n" if self._has_begun else b"["
        self._has_begun = True
        return opening + text

    def end(self) -> bytes:
        """Return the bytes that close the array of a complete stream."""
        return b"]" if self._has_begun else b"[]"
