"""Thought signatures on the gemini wire: its own, those of others, and the one that skips.

The field holds base64, and official clients refuse anything else in it; a foreign signature goes in
as base64 of its tagged envelope (`channels/translation/sealed_signature.py`). Clients send it back
in either alphabet of base64.

Newer upstreams want a signature on the first of a turn's function calls. A client whose protocol
has no place for signatures cannot send it back: for those the provider documents a value that skips
the check.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from channels.families import GEMINI, MESSAGES
from channels.translation import sealed_signature as envelope
from channels.translation.model import Protocol

ESCAPE = "skip_thought_signature_validator"

_ESCAPES = frozenset(
    (
        ESCAPE,
        base64.b64encode(ESCAPE.encode()).decode(),
        base64.urlsafe_b64encode(ESCAPE.encode()).decode(),
        "context_engineering_is_the_way_to_go",
    )
)
# What every sealed signature begins with; the last characters depend on what follows the tag.
SEALED = base64.b64encode(envelope.TAG.encode()).decode()[:14]
_REDACTED = "redacted:"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a `thoughtSignature` holds: a signature, or data instead of a thought."""

    value: str
    signer: Protocol
    is_redacted: bool = False


def read_signature(text: object) -> Signature | None:
    """The signature in the field; None where there is none, or only the value that skips."""
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
    """The field's content for a signature: this protocol's own as it is."""
    if signer is None or signer == GEMINI.protocol:
        return value
    return _wrapped(envelope.sealed(value, signer, own=GEMINI.protocol))


def write_redacted(data: str, signer: Protocol | None) -> str:
    """The field's content for opaque data; this protocol has none of its own."""
    whose = signer or MESSAGES.protocol
    return _wrapped(envelope.sealed(_REDACTED + data, whose, own=GEMINI.protocol))


def _wrapped(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _unwrapped(text: str) -> str:
    """The text within; empty where the field holds something else after all."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded.translate(_STANDARD), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return ""


_STANDARD = str.maketrans("-_", "+/")
