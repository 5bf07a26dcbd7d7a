"""What handlers may use, as one frozen object made by the composition root (`gw/serve.py`).

Each thing is described by the little that handlers ask of it, so that a test can give a fake. The
real ones: `gw/keys`, `actors/wallet`, `actors/limits`, `metrics/`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from actors.catalogs import Catalogs, CatalogUnavailable
from actors.clock import Clock
from actors.jobs.ending import JobUpstreams
from actors.jobs.job import Job
from actors.jobs.results import JobContent, LinkRenewal
from actors.jobs.store import Jobs
from actors.media_store.links import LinkSigner
from actors.store.connection import StoreUnavailable
from actors.wallet.ledger import Spending
from channels.media.replies import Failed
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.registry import Registry
from gw.api.overload import Overload
from gw.calls.jobs import JobSubmit
from gw.calls.media import Media, PieceCall, SubmitCall
from gw.config.config import Timeouts
from gw.errors import NO_CHANNEL_AVAILABLE, UPSTREAM_UNREACHABLE, GatewayError, from_upstream
from gw.http.application import RequestsInFlight
from gw.http.body import BODIES_BYTES, BodyBudget
from gw.idempotency import IdempotencyGuard
from gw.keys.principal import Principal
from gw.voices import Voices
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


# Links to films that the gateway serves itself, because their upstream has none for them.
#
# A client with a link needs no key until it expires: the signature says that the gateway made it,
# and the same secret signs it in every process (contract-media §7).

# Where a job keeps how its client reached the gateway, which has no `public_url`.
BASE_URL = "base_url"


class ContentLinks:
    """Makes links and tells its own from others, under keys of 32 bytes; the first signs."""

    def __init__(self, *keys: bytes, public_url: str) -> None:
        self._signer = LinkSigner(*keys)
        self._public_url = public_url

    def __repr__(self) -> str:
        return f"<ContentLinks {self._public_url}>"

    def link(self, job: Job, expires_at: float) -> str:
        """The link to a job's film until that instant (Unix seconds)."""
        base = self._public_url or job.request.get(BASE_URL, "")
        path = _path(job.id)
        return f"{base}{path}?{self._signer.query(path, math.floor(expires_at))}"

    def is_good(self, job_id: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether these are of a link that was made here, and that has not expired."""
        return self._signer.is_good(_path(job_id), expires, signature, now=now)


def _path(job_id: str) -> str:
    return f"/v1/videos/generations/{job_id}/content"


# What the media endpoints may use beside `Services`: their use-cases and their jobs.
#
# Made by `gw/media_services.py`; an endpoint finds it in the application's settings under `media`.

# Films that are read through a process at once: each holds two connections and a read's worth.
FILMS_MAX = 200


class FilmCount:
    """How many films are read through this process at the moment."""

    def __init__(self) -> None:
        self._open = 0

    def __repr__(self) -> str:
        return f"<FilmCount {self._open}>"

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One more is read within this. Raises GatewayError where there are too many."""
        if self._open >= FILMS_MAX:
            raise GatewayError(NO_CHANNEL_AVAILABLE, "Too many films are read at once. Try again.")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaServices:
    """Everything of media calls that their endpoints need.

    What is made while the client waits: `speech`, `voice`, `transcript`.
    """

    images: Media[PieceCall]
    jobs: Jobs
    video_submit: JobSubmit
    speech_submit: JobSubmit
    upstreams: JobUpstreams  # where what was made is deleted
    renewal: LinkRenewal
    content: JobContent
    content_links: ContentLinks
    films: FilmCount
    speech: Media[SubmitCall]
    voice: Media[SubmitCall]
    transcript: Media[SubmitCall]
    voices: Voices
    catalogs: Catalogs
    redactor: Callable[[], Redactor]


# What a client is told when no upstream tells what it lists.


def unavailable(failure: CatalogUnavailable, redact: Callable[[str], str]) -> GatewayError:
    """The upstream's status and words; 502 where it could not be reached, 503 where no channel has
    such a list at all."""
    reply = failure.reply
    if reply is None:
        return GatewayError(NO_CHANNEL_AVAILABLE, "No channel lists this.")
    message = redact(reply.message) if reply.message else "The upstream did not tell."
    if isinstance(reply, Failed) and reply.is_unreachable:
        return GatewayError(UPSTREAM_UNREACHABLE, message)
    headers = {"Retry-After": reply.retry_after} if reply.retry_after else {}
    return from_upstream(reply.status, message, headers=headers)
