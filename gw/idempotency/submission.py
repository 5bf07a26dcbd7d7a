"""One submit intent of a client: its idempotency key, and what becomes of it when the call ends.

Pure decisions. Who stands in the way of a key is the ledger's word (`actors/wallet/claims.py`), how
a client is told of it `guard.py`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from actors.wallet.claims import Claim, ClaimEnd, Free, KeptResponse, ResponseTooLarge
from actors.wallet.messages import RowStatus
from gw.errors.table import INVALID_IDEMPOTENCY_KEY, GatewayError

HEADER = "Idempotency-Key"
KEY_CHARACTERS_MAX = 200  # spec: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A claim on a key of an account. Answers of more than `response_bytes_max` are not kept."""

    account_id: str
    claim: Claim
    response_bytes_max: int

    def end(
        self,
        status: RowStatus,
        *,
        client_left: bool,
        cost_nano_usd: int,
        response: KeptResponse | None,
    ) -> ClaimEnd:
        """What the settlement of a call with this status says of the key (spec: Errors, rule 3)."""
        is_bought = status == "success" or cost_nano_usd > 0
        if response is not None and 200 <= response.status <= 299 and is_bought:
            return response if len(response.body) <= self.response_bytes_max else ResponseTooLarge()
        # A client that was cut off may ask again while the upstream is still at work.
        return None if client_left else Free()


def read_key(values: Sequence[str]) -> str | None:
    """The key in the values of the header, or None without one. Raises GatewayError."""
    if not values:
        return None
    if len(values) > 1:
        raise _refused("was sent more than once")
    (key,) = values
    if not key:
        raise _refused("is empty")
    if len(key) > KEY_CHARACTERS_MAX:
        raise _refused(f"has {len(key)} characters, of which {KEY_CHARACTERS_MAX} are allowed")
    if not all("!" <= character <= "~" for character in key):
        raise _refused("may hold printable ASCII characters only, and no spaces")
    return key


def fingerprint(*, method: str, path: str, body: bytes) -> bytes:
    """SHA-256 of what was asked: where, and the body as JSON.

    Spaces and the order of members do not make another body of it, whatever library wrote it.
    """
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(body), order="deterministic")
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        canonical = body
    return hashlib.sha256(f"{method} {path}\n".encode() + canonical).digest()


def fingerprint_of(body: bytes, method: str, path: str) -> tuple[bytes, None]:
    """The fingerprint as a job on a large body (`channels/offload/jobs.py`)."""
    return fingerprint(method=method, path=path, body=body), None


def _refused(fault: str) -> GatewayError:
    message = f"The header {HEADER} {fault}. Send 1 to {KEY_CHARACTERS_MAX} printable characters."
    return GatewayError(INVALID_IDEMPOTENCY_KEY, message, param=HEADER)
