"""What is said of an idempotency key along with a hold and its settlement: frozen values.

A call claims its key in the transaction that holds its money; the settlement says what becomes of
the claim. The rows are `idempotency` in the database (its migration has the rules), who reads them
is `gw/idempotency/`.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

# What a claim finds under its key (spec: States, Idempotent submission): a call under way; or one
# that was answered, to another request, or to this one: its response, or the memory of a response
# that was too large to keep.
ClaimState = Literal["in_flight", "reuse", "stored", "too_large"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """An idempotency key of the account, and the SHA-256 of the request that comes with it."""

    key: str
    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResponse:
    """Remember this response (2xx) for seven days."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResponseTooLarge:
    """Remember for seven days that there was a response, too large to be kept."""


@dataclass(frozen=True, slots=True)
class Free:
    """The key is free at once: the call failed (spec: Errors, rule 3)."""


# None, for a call whose client was cut off: the key stays claimed until ten minutes are over.
ClaimEnd = KeptResponse | ResponseTooLarge | Free | None


def claim_to_json(claim: Claim) -> dict[str, Any]:
    """The claim's part of a hold, as the ledger's SQL reads it."""
    return {"key": claim.key, "fingerprint": claim.fingerprint.hex()}


def end_to_json(end: KeptResponse | ResponseTooLarge | Free) -> dict[str, Any]:
    """The claim's part of a settlement."""
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
