"""Stands before a billed use-case and answers for it when its key has been used (spec: States).

    state under the key             answer
    none, or expired                the use-case runs; what becomes of the key is `submission.py`
    a request under way             409 idempotency_in_flight, whatever is asked now
    another request, answered       409 idempotency_key_reuse
    the same, answered              the response again, `Idempotency-Replayed: true`
    the same, answer not kept       409 idempotency_response_not_cached

The use-case claims the key with its hold and ends the claim with its settlement, each in the
ledger's own transaction; all that this adds is reading the request and telling the client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from actors.wallet.claims import Claim, ClaimState
from actors.wallet.wallets import KeyTaken
from gw.errors.table import (
    IDEMPOTENCY_IN_FLIGHT,
    IDEMPOTENCY_KEY_REUSE,
    IDEMPOTENCY_NOT_CACHED,
    GatewayError,
)
from gw.idempotency.store import StoredResponse
from gw.idempotency.submission import HEADER, Submission, read_key
from metrics.prometheus import Metrics

REPLAYED = "Idempotency-Replayed"


class ReplayWriter(Protocol):
    """Where a kept response is written to."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """A response of this type follows."""

    def send(self, body: bytes) -> None:
        """Send the whole of it."""


class StoredResponses(Protocol):
    """What is remembered under keys (`store.py`)."""

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None: ...

    async def is_known(self, account_id: str, key: str) -> bool: ...


class IdempotencyGuard:
    """Reads keys and replays answers. One per process; holds no state of its own."""

    def __init__(self, *, kept: StoredResponses, response_bytes_max: int, metrics: Metrics) -> None:
        self._kept = kept
        self._response_bytes_max = response_bytes_max
        self._metrics = metrics

    def submission(
        self, values: Sequence[str], *, account_id: str, asked: Callable[[], bytes]
    ) -> Submission | None:
        """The submit intent of a request; None without the header. Raises GatewayError.

        `values` are those of the header, which must be there once; `asked` is the fingerprint.
        """
        key = read_key(values)
        if key is None:
            return None
        claim = Claim(key=key, fingerprint=asked())
        return Submission(
            account_id=account_id, claim=claim, response_bytes_max=self._response_bytes_max
        )

    async def is_known(self, values: Sequence[str], *, account_id: str) -> bool:
        """Has this key been used? Then the request may need no money. Raises StoreUnavailable."""
        try:
            key = read_key(values)
        except GatewayError:
            return False  # which it will be told of in its turn
        return key is not None and await self._kept.is_known(account_id, key)

    async def run(
        self,
        submission: Submission | None,
        use_case: Callable[[], Awaitable[None]],
        writer: ReplayWriter,
    ) -> None:
        """Run a use-case that claims the submission's key, or replay its response.

        Raises GatewayError while nothing has been sent.
        """
        try:
            await use_case()
        except KeyTaken as taken:
            assert submission is not None
            self._metrics.idempotency(taken.state)
            kept = await self._found(submission, taken.state)
            self._replay(kept, writer)

    async def _found(self, submission: Submission, state: ClaimState) -> StoredResponse:
        if state == "reuse":
            raise GatewayError(IDEMPOTENCY_KEY_REUSE, _REUSE, param=HEADER)
        if state == "too_large":
            raise GatewayError(IDEMPOTENCY_NOT_CACHED, _NOT_CACHED, param=HEADER)
        if state == "stored":
            kept = await self._kept.find(submission.account_id, submission.claim)
            if kept is not None:
                return kept
            # It expired in this very moment: the next try is a new submission.
        raise GatewayError(IDEMPOTENCY_IN_FLIGHT, _IN_FLIGHT, param=HEADER)

    def _replay(self, kept: StoredResponse, writer: ReplayWriter) -> None:
        """The response as it was, trace included: that leads to the call that was billed."""
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
