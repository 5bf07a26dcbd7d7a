"""A JSON body without the insides of its long strings: all that a reader of its shape needs.

A request with an image in it is one string of a megabyte among a few hundred bytes that say
something. Once the whole has been checked (`members.py`), its types and its short values are
read from the outline, at no cost that grows with the image.
"""

from __future__ import annotations

# A run without a quotation mark that is at least so long loses its middle.
RUN_BYTES = 64 * 1024
# What is left of it at either end: longer than any string whose length or content is looked at.
KEPT_BYTES = 2 * 1024


def outline(body: bytes) -> bytes:
    """`body`, which is well-formed JSON, with the middle of its long strings left out.

    Types, names and strings of less than RUN_BYTES are the same, and long ones begin and end as
    they did; those with a space or an escape in them, as texts have, stay whole. Most bodies are
    their own outline.
    """
    if len(body) < RUN_BYTES:
        return body
    view = memoryview(body)
    pieces: list[memoryview] = []
    taken = 0
    probe = RUN_BYTES  # no run that is long enough lies between two probes
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
    """Whether a run without quotation marks lies within a string of encoded bytes.

    Outside of strings no "d" can be: neither in numbers nor in true, false and null. Within an
    image there is one.
    """
    return (
        body.find(b"d", start, end) >= 0
        and body.find(b"\\", start, end) < 0
        and body.find(b" ", start, end) < 0
    )


def _character_at(body: bytes, position: int) -> int:
    """Where the first character begins that is not before `position`."""
    while body[position] & 0xC0 == 0x80:
        position += 1
    return position
