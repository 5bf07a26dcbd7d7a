"""Thought signatures in the gemini protocol: its own, foreign ones, and one that skips the check.

The field is base64, and official clients refuse anything else in it; a foreign signature is sent
as base64 of its tagged envelope (`channels/translation/signatures.py`). Clients return it in
either alphabet of base64.

Newer upstreams require a signature on the first of a turn's function calls. Clients of protocols
without signatures cannot return it: for them the provider documents a value that skips the check.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from channels.dialects.gemini.media import STANDARD_ALPHABET
from channels.dialects.gemini.members import camel_keys
from channels.families import GEMINI, MESSAGES
from channels.translation import signatures as envelope
from channels.translation.model import Protocol
from channels.translation.signatures import RawTurn, edited

ESCAPE = "skip_thought_signature_validator"

_ESCAPES = frozenset(
    (
        ESCAPE,
        base64.b64encode(ESCAPE.encode()).decode(),
        base64.urlsafe_b64encode(ESCAPE.encode()).decode(),
        "context_engineering_is_the_way_to_go",
    )
)
# The prefix of every sealed signature; the base64 after it depends on the rest of the envelope.
SEALED = base64.b64encode(envelope.TAG.encode()).decode()[:14]
_REDACTED = "redacted:"


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of a `thoughtSignature`: a signature, or opaque data in place of a thought."""

    value: str
    signer: Protocol
    is_redacted: bool = False


def read_signature(text: object) -> Signature | None:
    """Return the signature; None without one, and for the value that skips the check."""
    if not isinstance(text, str) or not text or text in _ESCAPES:
        return None
    if not text.startswith(SEALED):
        return Signature(text, GEMINI.protocol)
    value, signer = envelope.opened(_unwrapped(text), own=GEMINI.protocol)
    if signer == GEMINI.protocol:
        return Signature(text, GEMINI.protocol)
    if value.startswith(_REDACTED):
        return Signature(value.removeprefix(_REDACTED), signer, is_redacted=True)
    return Signature(value, signer)


def write_signature(value: str, signer: Protocol | None) -> str:
    """Return the field for a signature; this protocol's own is unchanged."""
    if signer is None or signer == GEMINI.protocol:
        return value
    return _wrapped(envelope.sealed(value, signer, own=GEMINI.protocol))


def write_redacted(data: str, signer: Protocol | None) -> str:
    """Return the field for opaque data, which this protocol does not have itself."""
    whose = signer or MESSAGES.protocol
    return _wrapped(envelope.sealed(_REDACTED + data, whose, own=GEMINI.protocol))


def _wrapped(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _unwrapped(text: str) -> str:
    """Return the text within; empty if the field is not valid base64 of UTF-8."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded.translate(STANDARD_ALPHABET), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return ""


def prove_calls(parts: Sequence[dict[str, object]]) -> None:
    """Set the value that skips the check on a turn's first call, if no call is signed."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = ESCAPE


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """Return the body without foreign signatures; the same bytes if there are none."""
    if SEALED.encode() not in outline:
        return body
    return edited(body, "contents", _without_in_content)


def _without_in_content(content: RawTurn) -> RawTurn | None:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    read = [camel_keys(part) if isinstance(part, Mapping) else part for part in parts]
    kept = [left for part in read if (left := _without_in_part(part)) is not None]
    if kept == read:
        return content
    prove_calls([part for part in kept if isinstance(part, dict)])
    return {**content, "parts": kept} if kept else None


def _without_in_part(part: object) -> object:
    """Return the part without a foreign signature; None for a thought, or if nothing is left."""
    if not isinstance(part, Mapping):
        return part
    signature = read_signature(part.get("thoughtSignature"))
    if signature is None or signature.signer == GEMINI.protocol:
        return part
    rest = {name: value for name, value in part.items() if name != "thoughtSignature"}
    return None if rest.get("thought") is True or rest in ({}, {"text": ""}) else rest
