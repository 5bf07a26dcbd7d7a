"""Bounds of outside text that is stored, looked up or shown (reference 1.5).

PostgreSQL refuses NUL in text, and a lone surrogate cannot be encoded. A client's name, id,
reference or query value with either is refused before it is used; an upstream's text is cleaned
and truncated, because one such string would fail a whole batch of rows. `channels/redaction.py`
hides secrets.
"""

from __future__ import annotations

import re

# What PostgreSQL stores; also a pattern for tables of members (`gw/media/fields.py`).
STORABLE = r"\A[^\x00\ud800-\udfff]*\Z"
STORABLE_WORDS = "without NUL"
_STORABLE = re.compile(STORABLE)
# The same for bytes: in UTF-8 only a surrogate has ED before A0 to BF.
_UNSTORABLE_BYTES = re.compile(rb"\x00|\xed[\xa0-\xbf]")
# Controls except tab and newline, and surrogates.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


def is_storable(text: str) -> bool:
    """Whether a text contains neither NUL nor lone surrogates."""
    return _STORABLE.match(text) is not None


def are_storable(data: bytes) -> bool:
    """Whether bytes of UTF-8 contain neither NUL nor encoded surrogates."""
    return _UNSTORABLE_BYTES.search(data) is None


def fit(text: str, limit: int) -> str:
    """Replace each run of unfit characters by a space, and truncate to `limit` characters."""
    text = _UNFIT.sub(" ", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
