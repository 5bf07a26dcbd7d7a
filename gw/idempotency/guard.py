"""Guards a billed use-case, and responds instead of it when its key was used (reference 1.10).

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

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from actors.wallet.claims import Claim, ClaimState
from actors.wallet.wallets import KeyTaken
from gw import errors
from gw.idempotency.claim import HEADER, IdempotencyClaim, read_key
from gw.idempotency.store import StoredResponse
from metrics.prometheus import Metrics

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
        except errors.GatewayError:
            return False  # the error is raised later
        return key is not None and await self._kept.is_known(account_id, key)

    async def run_once(
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
            raise errors.GatewayError(errors.IDEMPOTENCY_KEY_REUSE, _REUSE, param=HEADER)
        if state == "too_large":
            raise errors.GatewayError(errors.IDEMPOTENCY_NOT_CACHED, _NOT_CACHED, param=HEADER)
        if state == "stored":
            kept = await self._kept.find(idempotency.account_id, idempotency.claim)
            if kept is not None:
                return kept
            # The key has just expired: the next request is a new call.
        raise errors.GatewayError(errors.IDEMPOTENCY_IN_FLIGHT, _IN_FLIGHT, param=HEADER)

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
    f"The request with this {HEADER} succeeded and was billed, but its answer could not be kept."
    " Nothing was charged for this one; the list endpoints and the call log tell of it."
)
