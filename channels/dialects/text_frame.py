"""What surrounds the text in the events of a stream, which most of them have in common.

An event that differs from one before in its text alone states nothing else, so that it is metered
without being decoded.
"""

from __future__ import annotations

import re

from msgspec import Struct

# Texts as JSON without quotes; another escape may be half of a character.
_TEXTS = re.compile(rb'(?:[^"\\\x00-\x1f]++|\\["\\/bfnrt])*+')


class TextFrame(Struct, frozen=True, gc=False):
    """The bytes of an event before its text, those after it, and those between two texts."""

    before: bytes
    after: bytes
    between: bytes

    def characters_in(self, piece: bytes) -> int | None:
        """Count the characters of a piece that has only events with this frame; else None."""
        before, between = len(self.before), self.between
        end = len(piece) - len(self.after)
        if end < before or not (piece.startswith(self.before) and piece.endswith(self.after)):
            return None
        found = piece[before:end]
        # Each in place of the bytes between two texts, so that no character is whole that is cut.
        texts = found.replace(between, b" ")
        if _TEXTS.fullmatch(texts) is None:
            return None
        try:
            characters = len(texts.decode())
        except UnicodeDecodeError:
            return None
        if len(found) > len(texts):
            characters -= (len(found) - len(texts)) // (len(between) - 1)
        if b"\\" in texts:  # of each escape the first character; a second backslash is another one
            characters -= texts.count(b"\\") - texts.count(b"\\\\")
        return characters


def frame_of(event: bytes, name: bytes, text: str) -> TextFrame | None:
    """Return the frame of an event of one line of data, whose member of this name is the text.

    None if another one may have the name, or if the text has escapes.
    """
    quoted = b'"%b"' % name
    named = event.find(quoted) + len(quoted)
    start = event.find(b'"', named) + 1
    end = event.find(b'"', start)
    stated = text.encode("utf-8", "surrogatepass")
    is_text = event[named : start - 1].strip() == b":" and event[start:end] == stated
    if not is_text or event.count(quoted) != 1 or b"\\" in event:
        return None
    before, after = event[:start], event[end:]
    return TextFrame(before, after, after + before)
