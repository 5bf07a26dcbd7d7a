"""The part of an idempotency key in a hold and its settlement.

A call claims its key in the transaction that holds its money; the settlement ends the claim. The
rows are in the table `idempotency` (its migration has the rules); `gw/idempotency/` reads them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# What a claim finds under its key (reference 1.10): a call under way; or a
# completed one, of a different request, or of the same request with its response, or with a note
# that the response was too large to keep.
ClaimState = Literal["in_flight", "reuse", "stored", "too_large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An idempotency key of the account, and the SHA-256 of its request."""

    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """Keep this response (2xx) for seven days."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResponseTooLarge:
    """Keep for seven days that there was a response too large to store."""


@dataclass(frozen=True, slots=True)
class Free:
    """Free the key at once: the call failed (reference 1.10)."""


# None, for a call whose client disconnected: the key stays claimed for the rest of ten minutes.
ClaimEnd = KeptResponse | ResponseTooLarge | Free | None


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """Encode the claim of a hold for the ledger's SQL."""
    return {"key": claim.key, "fingerprint": claim.fingerprint.hex()}


def end_to_json(end: KeptResponse | ResponseTooLarge | Free) -> dict[str, Any]:
    """Encode the end of a claim for the ledger's SQL."""
    if isinstance(end, Free):
        return {"state": "free"}
    if isinstance(end, ResponseTooLarge):
        return {"state": "too_large"}
    assert 200 <= end.status <= 299, end.status
    return {
        "state": "stored",
        "status": end.status,
        "headers": [list(header) for header in end.headers],
        "body": base64.b64encode(end.body).decode("ascii"),
    }
