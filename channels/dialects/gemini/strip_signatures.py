"""Signatures of other providers, taken out of a request that needs no translation.

Why they are there is said in `channels/translation/strip_signatures.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.gemini.names import camel_keys
from channels.dialects.gemini.signatures import SEALED, read_signature
from channels.dialects.gemini.write_parts import prove_calls
from channels.families import GEMINI
from channels.translation.strip_signatures import Turn, edited


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """The body without them; the same bytes when there are none."""
    if SEALED.encode() not in outline:
        return body
    return edited(body, "contents", _without_in_content)


def _without_in_content(content: Turn) -> Turn | None:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    read = [camel_keys(part) if isinstance(part, Mapping) else part for part in parts]
    kept = [left for part in read if (left := _without_in_part(part)) is not None]
    if kept == read:
        return content
    prove_calls([part for part in kept if isinstance(part, dict)])
    return {**content, "parts": kept} if kept else None


def _without_in_part(part: Any) -> Any:
    """The part without a foreign signature; None for a thought, or where nothing else is left."""
    signature = read_signature(part.get("thoughtSignature")) if isinstance(part, Mapping) else None
    if signature is None or signature.signer == GEMINI.protocol:
        return part
    rest = {name: value for name, value in part.items() if name != "thoughtSignature"}
    return None if rest.get("thought") is True or rest in ({}, {"text": ""}) else rest
