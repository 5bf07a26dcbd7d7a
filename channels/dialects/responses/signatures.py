"""The proofs of thoughts in the responses protocol: its own, and those of other providers.

A client returns them unchanged in `encrypted_content` (`channels/translation/signatures.py`).
"""

from __future__ import annotations

import re

from channels.families import RESPONSES
from channels.translation import signatures
from channels.translation.model import Protocol, Thinking

_REDACTED = "redacted:"
# The alphabet of other providers' proofs: base64, in either variant.
_PROOF = re.compile(r"[A-Za-z0-9+/_=-]+")


def proven(text: str, proof: str) -> Thinking:
    """Return the thought proven by an `encrypted_content`, which may be another protocol's."""
    if proof == signatures.UNSIGNED:
        return Thinking(text)
    signature, signer = signatures.opened(proof, own=RESPONSES.protocol)
    if signer == RESPONSES.protocol:
        return Thinking(text, signature=signature, signer=signer)
    data = signature.removeprefix(_REDACTED)
    if _PROOF.fullmatch(data) is None:  # damaged: its signer could not check it
        return Thinking(text, signer=signer)
    if data != signature:
        return Thinking("", redacted=data, signer=signer)
    return Thinking(text, signature=signature, signer=signer)


def redacted_proof(data: str) -> str:
    """Return an `encrypted_content` for opaque data, which this protocol does not have."""
    return _REDACTED + data


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """Return the body without foreign thoughts; the same object if there are none."""
    if signatures.TAG.encode() not in outline:
        return body
    return signatures.edited(body, "input", _without_foreign_thought)


def _without_foreign_thought(item: signatures.RawTurn) -> signatures.RawTurn | None:
    """Return the item; None for a thought that a translation has sealed."""
    if item.get("type") != "reasoning":
        return item
    proof = item.get("encrypted_content")
    return None if isinstance(proof, str) and proof.startswith(signatures.TAG) else item


def proof_member(
    signature: str | None, redacted: str | None, signer: Protocol | None
) -> dict[str, object]:
    """Return the member that proves a thought to its signer.

    A client returns it unchanged (`channels/translation/signatures.py`).
    """
    proof = redacted_proof(redacted) if redacted else signature
    if not proof:
        return {"encrypted_content": signatures.UNSIGNED}
    return {"encrypted_content": signatures.sealed(proof, signer, own=RESPONSES.protocol)}
