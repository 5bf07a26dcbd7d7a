"""What handlers may use, as one frozen object made by the composition root (`gw/endpoints.py`).

Each thing is described by the little that handlers ask of it, so that a test can give a fake. The
real ones: `gw/keys`, `actors/wallet`, `actors/limits`, `metrics/`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from actors.clock import Clock
from actors.store.errors import StoreUnavailable
from actors.wallet.ledger import Spending
from channels.offload.pool import OffloadPool
from channels.registry import Registry
from gw.api.overload import Overload
from gw.config.config import Timeouts
from gw.http.body import BODIES_BYTES, BodyBudget
from gw.http.drain import RequestsInFlight
from gw.idempotency.guard import IdempotencyGuard
from gw.keys.principal import Principal
from metrics.prometheus import Metrics
from metrics.tracing import Tracing

# With the database up a settlement is a matter of milliseconds. This long means that it is away.
SETTLE_SECONDS = 5.0


class Keys(Protocol):
    """Who a key belongs to."""

    async def authenticate(self, key_text: str, *, touch: bool = True) -> Principal:
        """Raises KeyRefused, or StoreUnavailable. `touch=False` leaves the last use alone."""

    def try_authenticate(self, key_text: str, *, touch: bool = True) -> Principal | None:
        """Authenticate from memory; None for a key that is not known there, or is no good."""


class Money(Protocol):
    """What an account can spend, in nano-USD. Every method raises StoreUnavailable."""

    async def available(self, account_id: str) -> int:
        """Balance minus open holds: a snapshot, but exact when it is not positive."""

    def is_funded(self, account_id: str) -> bool:
        """True when memory says that something is available; False says nothing."""

    async def spending(self, key_id: str, account_id: str) -> Spending:
        """The account's money and the key's part in it, read fresh."""


class LimitLease(Protocol):
    """The right of one request to be in flight."""

    @property
    def headers(self) -> Mapping[str, str]:
        """`x-ratelimit-*` of a successful response; empty where no limit exists."""

    def leave(self) -> None:
        """Give the slot back. Leaving twice is harmless."""


class AccountLimiter(Protocol):
    """The limits of accounts (spec: Limits)."""

    async def enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> LimitLease:
        """Raises LimitExceeded."""

    def try_enter(
        self, account_id: str, *, rpm: int | None, concurrency: int | None
    ) -> LimitLease | None:
        """`enter` where no other process is asked; None where one is. Raises LimitExceeded."""


class WebConfig(Protocol):
    """The part of the configuration that handlers read."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body that is accepted."""

    @property
    def timeouts(self) -> Timeouts:
        """How long to wait for an upstream."""

    @property
    def tls(self) -> object | None:
        """What the listener shows its clients; None: it speaks plain HTTP."""

    @property
    def messages_versions(self) -> tuple[str, ...]:
        """The versions of the messages protocol that are accepted (contract §5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A billed request that the gateway itself refused: one row, status `rejected`, cost 0."""

    call_id: UUID
    principal: Principal
    protocol: str
    model: str | None  # as the client named it; None when the body was not read that far
    http_status: int
    error_code: str
    error_message: str
    submitted_at: float  # Unix seconds
    detail: Mapping[str, Any] | None = None  # what was read of it, for the row


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything a handler needs from outside."""

    keys: Keys
    wallets: Money
    # Done when what any process has to write of the account is written. As `Money`'s.
    settled: Callable[[str], Awaitable[None]]
    limits: AccountLimiter
    registry: Callable[[], Registry]  # the current one; a reload swaps it
    metrics: Metrics
    tracing: Tracing
    clock: Clock
    new_id: Callable[[], UUID]
    config: WebConfig
    refusals: Callable[[RefusedCall], None]
    idempotency: IdempotencyGuard
    # Redacts what an upstream says before a client sees it, and the translations that are enabled.
    redact: Callable[[str], str] = str
    translations: Callable[[], frozenset[str]] = frozenset
    in_flight: RequestsInFlight = field(default_factory=RequestsInFlight)
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(BODIES_BYTES))
    overload: Overload = field(default_factory=lambda: Overload(None))
    # Where the work on large bodies is done.
    offload: OffloadPool = field(default_factory=OffloadPool)


async def until_settled(services: Services, account_id: str) -> None:
    """Wait until every settlement and row of the account is written. Raises StoreUnavailable.

    For readers of the database who must see what a client has seen happen.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await services.settled(account_id)
    except TimeoutError:
        raise StoreUnavailable("settlements are waiting for the database") from None
