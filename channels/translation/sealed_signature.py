"""A signature of one provider, in the field where another provider's signatures go.

A thinking block's signature means something to its maker only, yet it must come back to its maker
unchanged. Where a protocol has one field for its own signatures, a foreign one travels in it under
a tag that says whose it is.
"""

from __future__ import annotations

from channels.families import CHAT_PROTOCOLS
from channels.translation.model import Protocol

TAG = "translated:"


def sealed(signature: str, signer: Protocol | None, *, own: Protocol) -> str:
    """What goes into the field of `own`: its own signature as it is, a foreign one tagged."""
    if signer is None or signer == own:
        return signature
    return f"{TAG}{signer}:{signature}"


def opened(text: str, *, own: Protocol) -> tuple[str, Protocol]:
    """The signature that the field of `own` holds, and whose it is."""
    if text.startswith(TAG):
        name, colon, signature = text[len(TAG) :].partition(":")
        if colon and name in CHAT_PROTOCOLS:
            return signature, name
    return text, own
