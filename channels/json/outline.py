"""The outline of a JSON body: the body without the middle of its long strings.

A request with an image is one string of a megabyte and a few hundred bytes of other members.
Once the whole body was validated, its types and short values are decoded from the outline, at
no cost that grows with the image.
"""

from __future__ import annotations

# The middle of a run of this length without a quotation mark is dropped.
RUN_BYTES = 64 * 1024
# Kept at either end of a run: longer than any string whose length or content is checked.
KEPT_BYTES = 2 * 1024
# Marks that base64 does not contain.
_NOT_ENCODED = (b"\\", b" ", b"[", b"{", b"%")


def outline(body: bytes) -> bytes:
    """Return well-formed JSON with the middle of its long strings dropped.

    Types, names and strings of less than RUN_BYTES are unchanged, and long ones keep their ends;
    strings with a space or an escape, as in texts, stay whole, and so do those with brackets of
    JSON or an escape of a URL, which cost more to decode than their bytes. Most bodies are returned
    unchanged.
    """
    if len(body) < RUN_BYTES:
        return body
    view = memoryview(body)
    pieces: list[memoryview] = []
    taken = 0
    probe = RUN_BYTES  # each run of that length contains a probe
    while (end := body.find(b'"', probe)) >= 0:
        start = body.rfind(b'"', taken, probe) + 1
        if end - start >= RUN_BYTES and _is_encoded(body, start, end):
            cut = _character_at(body, start + KEPT_BYTES)
            pieces.append(view[taken:cut])
            taken = _character_at(body, end - KEPT_BYTES)
        probe = end - end % RUN_BYTES + RUN_BYTES
    if not pieces:
        return body
    pieces.append(view[taken:])
    return b"".join(pieces)


def _is_encoded(body: bytes, start: int, end: int) -> bool:
    """Whether a run without quotation marks is part of a string of encoded bytes.

    Outside strings there is no "d": neither numbers nor true, false and null have one. Any image
    contains one.
    """
    return body.find(b"d", start, end) >= 0 and all(
        body.find(mark, start, end) < 0 for mark in _NOT_ENCODED
    )


def _character_at(body: bytes, position: int) -> int:
    """Return the first position from `position` on where a character begins."""
    while body[position] & 0xC0 == 0x80:
        position += 1
    return position
