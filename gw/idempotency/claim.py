"""One submit intent of a client: its idempotency key, and the key's state after the call.

Pure decisions. The ledger decides conflicts between keys (`actors/wallet/messages.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from actors.wallet import claims
from actors.wallet.messages import RowStatus
from channels.dialects.multipart import read_form
from channels.errors import InvalidRequest
from gw.errors import INVALID_IDEMPOTENCY_KEY, GatewayError

HEADER = "Idempotency-Key"
KEY_CHARACTERS_MAX = 200  # reference 1.10


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyClaim:
    """A claim on a key of an account. Responses above `response_bytes_max` are not kept."""

    account_id: str
    claim: claims.Claim
    response_bytes_max: int

    def end(
        self,
        status: RowStatus,
        *,
        client_left: bool,
        cost_nano_usd: int,
        response: claims.KeptResponse | None,
    ) -> claims.ClaimEnd:
        """Return the key's end after a call with this status (reference 1.10)."""
        is_bought = status == "success" or cost_nano_usd > 0
        if response is not None and 200 <= response.status <= 299 and is_bought:
            return (
                response
                if len(response.body) <= self.response_bytes_max
                else claims.ResponseTooLarge()
            )
        # A disconnected client may retry while the upstream is still working.
        return None if client_left else claims.Free()


def read_key(values: Sequence[str]) -> str | None:
    """Return the key of the header's values, or None without one. Raises GatewayError."""
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


def fingerprint_of(
    body: bytes, method: str, path: str, content_type: str | None = None
) -> tuple[bytes, None]:
    """Return the SHA-256 of the request: method, path, and body as JSON or as the parts of a form.

    White space and the order of members do not matter, nor does the boundary of a form: libraries
    differ in them, and draw another boundary for each try. It is a job as those on a large body
    (`channels/offload/jobs.py`).
    """
    digest = hashlib.sha256(f"{method} {path}\n".encode())
    if content_type is not None and content_type.lower().startswith("multipart/"):
        for piece in _form_pieces(body, content_type):
            digest.update(piece)
        return digest.digest(), None
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(body), order="deterministic")
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError):
        canonical = body
    digest.update(canonical)
    return digest.digest(), None


def _form_pieces(body: bytes, content_type: str) -> Iterator[bytes | memoryview]:
    """Yield what a form says, each part with its length; all of a body that is no plain form."""
    try:
        form = read_form(body, content_type, frozenset())
    except InvalidRequest:
        yield body
        return
    view = memoryview(body)
    for part in form.parts:
        yield msgspec.json.encode((part.name, part.file_name, part.media_type, part.size))
        yield view[part.start : part.end]


def _refused(fault: str) -> GatewayError:
    message = f"The header {HEADER} {fault}. Send 1 to {KEY_CHARACTERS_MAX} printable characters."
    return GatewayError(INVALID_IDEMPOTENCY_KEY, message, param=HEADER)
