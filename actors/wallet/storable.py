"""Text and JSON that PostgreSQL stores, whatever a client or an upstream has sent.

It accepts neither NUL nor lone surrogates, and would refuse the whole batch for one bad text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import ujson
from msgspec import Raw

_encode = msgspec.json.Encoder().encode


def to_json(items: Any) -> str:
    """Encode as JSON for PostgreSQL, which refuses NUL and lone surrogates anywhere."""
    return encode_json(items).decode()


def encode_json(items: Any) -> bytes:
    """Encode as JSON for PostgreSQL, in UTF-8."""
    try:
        encoded = _encode(items)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        pass
    else:
        if b"\\" not in encoded or b"\\u0000" not in encoded:
            return encoded
    return bytes(ujson.dumps(clean_json(items), escape_forward_slashes=False).encode())


def encode_detail(detail: Mapping[str, Any] | None) -> Raw:
    """Encode the detail of a row once for all that takes it."""
    return Raw(encode_json(detail))


def clean_json(value: Any) -> Any:
    """Return the value with every text in it made storable."""
    if isinstance(value, str):
        return clean_text(value, len(value))
    if isinstance(value, Mapping):
        return {clean_json(name): clean_json(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [clean_json(item) for item in value]
    return value


def clean_text(text: str | None, limit: int = 2000) -> str | None:
    """Make text storable: PostgreSQL accepts neither NUL nor lone surrogates."""
    if text is None:
        return None
    cleaned = text[:limit].replace("\x00", "")
    return cleaned if cleaned.isascii() else cleaned.encode("utf-8", "replace").decode()
