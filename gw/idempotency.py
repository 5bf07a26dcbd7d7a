"""Guards a billed use-case, and responds instead of it when its key was used (spec: States).

    state under the key               response
    none, or expired                  the use-case runs; its end decides the state of the key
    a request under way               409 idempotency_in_flight, whatever the new request
    another request, completed        409 idempotency_key_reuse
    the same, completed               the response again, `Idempotency-Replayed: true`
    the same, response not kept       409 idempotency_response_not_cached

The use-case claims the key with its hold and ends the claim with its settlement, each in the
ledger's transaction; this file reads the request and responds to the client.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import msgspec

from actors.clock import Clock
from actors.store.database import Database
from actors.store.queries import load
from actors.store.waits import in_time
from actors.wallet.claims import Claim, ClaimEnd, ClaimState, Free, KeptResponse, ResponseTooLarge
from actors.wallet.messages import RowStatus
from actors.wallet.wallets import KeyTaken
from channels.dialects.multipart import read_form
from channels.errors import InvalidRequest
from gw.errors import (
    IDEMPOTENCY_IN_FLIGHT,
    IDEMPOTENCY_KEY_REUSE,
    IDEMPOTENCY_NOT_CACHED,
    INVALID_IDEMPOTENCY_KEY,
    GatewayError,
)
from metrics.prometheus import Metrics

# Reads the responses kept under idempotency keys, and deletes expired ones.
#
# Claims and their ends are written only by the ledger, with the money
# (`actors/wallet/messages.py`).

SQL = load("gw", "idempotency.sql")

FORGET_SECONDS = 60.0
# One statement runs between two heartbeats, and a response may be a megabyte.
FORGET_KEYS_MAX = 100


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A kept response, and the call that received it."""

    call_id: UUID
    response: KeptResponse


class IdempotencyStore:
    """The keys of every account. Methods raise StoreUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None:
        """Return the response kept for this request, or None."""
        row = await in_time(
            self._database.fetch_one(SQL["answer"], (account_id, claim.key, claim.fingerprint))
        )
        if row is None:
            return None
        call_id, status, headers, body = row
        pairs = tuple((str(name), str(value)) for name, value in headers)
        return StoredResponse(
            UUID(call_id), KeptResponse(status=status, headers=pairs, body=bytes(body))
        )

    async def state(self, account_id: str, claim: Claim) -> ClaimState | None:
        """Return the state of a key for this request, as its hold would find it; None: free."""
        about = (account_id, claim.key, claim.fingerprint.hex())
        row = await in_time(self._database.fetch_one(SQL["state"], about))
        assert row is not None
        found: ClaimState | None = row[0]
        return found

    async def is_known(self, account_id: str, key: str) -> bool:
        """Whether the key is in use by any request."""
        row = await in_time(self._database.fetch_one(SQL["is_known"], (account_id, key)))
        assert row is not None
        return bool(row[0])


class ExpiredKeys:
    """Deletes expired keys in small batches, as a chore of the heartbeat."""

    def __init__(self, *, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._next = 0.0

    async def forget(self) -> None:
        """Delete one batch a minute; with every beat while there are more."""
        if self._clock.monotonic() < self._next:
            return
        gone = await self._database.execute(SQL["forget_expired"], (FORGET_KEYS_MAX,))
        if gone < FORGET_KEYS_MAX:
            self._next = self._clock.monotonic() + FORGET_SECONDS


# One submit intent of a client: its idempotency key, and the key's state after the call.
#
# Pure decisions. The ledger decides conflicts between keys (`actors/wallet/messages.py`).

HEADER = "Idempotency-Key"
KEY_CHARACTERS_MAX = 200  # spec: Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyClaim:
    """A claim on a key of an account. Responses above `response_bytes_max` are not kept."""

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
        """Return the key's end after a call with this status (spec: Errors, rule 3)."""
        is_bought = status == "success" or cost_nano_usd > 0
        if response is not None and 200 <= response.status <= 299 and is_bought:
            return response if len(response.body) <= self.response_bytes_max else ResponseTooLarge()
        # A disconnected client may retry while the upstream is still working.
        return None if client_left else Free()


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


REPLAYED = "Idempotency-Replayed"


class ReplayWriter(Protocol):
    """The writer of a kept response."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """Begin a response of this type."""

    def send(self, body: bytes) -> None:
        """Send the whole body."""


class StoredResponses(Protocol):
    """The kept responses."""

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None: ...

    async def state(self, account_id: str, claim: Claim) -> ClaimState | None: ...

    async def is_known(self, account_id: str, key: str) -> bool: ...


class IdempotencyGuard:
    """Reads keys and replays responses. One per process; stateless."""

    def __init__(self, *, kept: StoredResponses, response_bytes_max: int, metrics: Metrics) -> None:
        self._kept = kept
        self._response_bytes_max = response_bytes_max
        self._metrics = metrics

    def claim_of(self, account_id: str, key: str, asked: bytes) -> IdempotencyClaim:
        """Return the claim of a request with this key; `asked` is its fingerprint."""
        return IdempotencyClaim(
            account_id=account_id,
            claim=Claim(key=key, fingerprint=asked),
            response_bytes_max=self._response_bytes_max,
        )

    async def replayed(self, idempotency: IdempotencyClaim, writer: ReplayWriter) -> bool:
        """Replay the response kept for a request, and return whether there is one.

        Raises GatewayError if the key is in use otherwise, and StoreUnavailable.
        """
        state = await self._kept.state(idempotency.account_id, idempotency.claim)
        if state is None:
            return False
        self._metrics.idempotency(state)
        self._replay(await self._found(idempotency, state), writer)
        return True

    async def is_known(self, values: Sequence[str], *, account_id: str) -> bool:
        """Whether the key was used, and the call may be free. Raises StoreUnavailable."""
        try:
            key = read_key(values)
        except GatewayError:
            return False  # the error is raised later
        return key is not None and await self._kept.is_known(account_id, key)

    async def run(
        self,
        idempotency: IdempotencyClaim | None,
        use_case: Callable[[], Awaitable[None]],
        writer: ReplayWriter,
    ) -> None:
        """Run a use-case that claims the key, or replay its response.

        Raises GatewayError while nothing has been sent.
        """
        try:
            await use_case()
        except KeyTaken as taken:
            assert idempotency is not None
            self._metrics.idempotency(taken.state)
            kept = await self._found(idempotency, taken.state)
            self._replay(kept, writer)

    async def _found(self, idempotency: IdempotencyClaim, state: ClaimState) -> StoredResponse:
        if state == "reuse":
            raise GatewayError(IDEMPOTENCY_KEY_REUSE, _REUSE, param=HEADER)
        if state == "too_large":
            raise GatewayError(IDEMPOTENCY_NOT_CACHED, _NOT_CACHED, param=HEADER)
        if state == "stored":
            kept = await self._kept.find(idempotency.account_id, idempotency.claim)
            if kept is not None:
                return kept
            # The key has just expired: the next request is a new call.
        raise GatewayError(IDEMPOTENCY_IN_FLIGHT, _IN_FLIGHT, param=HEADER)

    def _replay(self, kept: StoredResponse, writer: ReplayWriter) -> None:
        """Replay the response with its trace, which leads to the billed call."""
        headers = dict(kept.response.headers)
        content_type = headers.pop("Content-Type")
        writer.begin(
            content_type,
            {**headers, "x-gateway-trace": kept.call_id.hex, REPLAYED: "true"},
            http_status=kept.response.status,
        )
        writer.send(kept.response.body)


_REUSE = (
    f"This {HEADER} was sent before with another request. Send the request as it was then, or use"
    " a new key for a new one."
)
_IN_FLIGHT = (
    f"An earlier request with this {HEADER} has not been answered yet. Nothing was charged for this"
    " one; try again shortly."
)
_NOT_CACHED = (
    f"The request with this {HEADER} succeeded and was billed, but its answer was too large to be"
    " kept. Nothing was charged for this one; the list endpoints and the call log tell of it."
)
