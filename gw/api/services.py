"""The services of handlers, as one frozen object created by the composition root (`gw/serve.py`).

Media, call log and knowledge bases have objects of their own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from actors.catalogs import Catalogs, CatalogUnavailable
from actors.clock import Clock
from actors.jobs.content import JobContent
from actors.jobs.job import Job
from actors.jobs.link_renewal import LinkRenewal
from actors.jobs.service import Jobs
from actors.jobs.upstreams import JobUpstreams
from actors.limits.accounts import AccountLimits
from actors.limits.limiter import Limiter
from actors.media_store.links import LinkSigner
from actors.media_store.worker import MediaStore
from actors.store.connection import StoreUnavailable
from actors.store.database import Database
from actors.wallet.messages import CallFacts, Outcome
from actors.wallet.wallets import Wallets
from channels.answers import ANSWERS_BYTES, AnswerBudget
from channels.media.canonical import Failed
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.resources import BODIES_BYTES, BodyBudget
from channels.shares import ShareRefused, Shares, halves
from gw.api.logs.list_query import CursorSeal
from gw.api.logs.summary import SummaryCache
from gw.calls.call import retry_after_of
from gw.calls.chat import ChatCalls
from gw.calls.jobs import JobSubmit
from gw.calls.media import Media, PieceCall, SubmitCall
from gw.calls.openings import RecentOpenings
from gw.config.config import Config
from gw.config.live import LiveConfig
from gw.errors import (
    NO_CHANNEL_AVAILABLE,
    UPSTREAM_UNREACHABLE,
    GatewayError,
    from_upstream,
    unserved,
)
from gw.http.drain import RequestsInFlight
from gw.http.overload import Overload
from gw.idempotency import IdempotencyGuard
from gw.keys.cache import KeyCache
from gw.keys.principal import Principal
from gw.keys.secret import Secret
from gw.knowledge.bucket_sources import BucketSources
from gw.knowledge.reading import StoredSource
from gw.knowledge.sources import SourceLinks, Sources
from gw.voices import Voices
from metrics.log_redaction import redact
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.tracing import Tracing

# Timeout of settlements, which take milliseconds while the database is available.
SETTLE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A billed request that the gateway itself refused: one row, status `rejected`, cost 0."""

    call_id: UUID
    principal: Principal
    protocol: str
    model: str | None  # as named by the client; None if the body was not read that far
    http_status: int
    error_code: str
    error_message: str
    submitted_at: float  # Unix seconds
    detail: Mapping[str, Any] | None = None  # the members read so far, for the row


# The rows of refused calls: recorded, never charged (spec: Call log row).


# Rows of refused calls of one account in a minute: a refusal costs its client nothing, a row as
# much as that of a call.
REFUSALS_RECORDED_MAX = 1000
# Requests to the keeper of limits that are under way, of one process.
REFUSALS_ASKED_MAX = 64


class RefusalRate:
    """Whether a refused call has a row: so many of an account in a minute, by all processes.

    It decides at once, since a client may read its log next. Where other processes count the
    account's, too, their keeper is told of each row, and what it refuses ends the account's rows
    until the minute is over; a few more may have been written by then.
    """

    def __init__(self, *, limiter: Limiter, clock: Clock) -> None:
        self._limiter = limiter
        self._clock = clock
        self._minute = 0
        self._counts: dict[str, int] = {}  # of the minute, by account
        self._left_out: set[str] = set()  # accounts with a call without a row in the minute
        self._asking: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<RefusalRate of {len(self._counts)} accounts>"

    def admits(self, account_id: str) -> bool:
        """Count a refused call; return whether it has a row."""
        minute = int(self._clock.monotonic() // 60)
        if minute != self._minute:
            self._minute = minute
            self._counts.clear()
            self._left_out.clear()
        count = self._counts.get(account_id, 0)
        self._counts[account_id] = count + 1
        if count >= REFUSALS_RECORDED_MAX:
            return False
        name = _refusals_of(account_id)
        alone = self._limiter.try_enter(name, rpm=REFUSALS_RECORDED_MAX, concurrency=None)
        if alone is not None:
            status, slot = alone
            if status.refused is None:
                self._limiter.leave(name, slot)
            return status.refused is None
        if len(self._asking) < REFUSALS_ASKED_MAX:
            asking = asyncio.create_task(self._ask(account_id, minute))
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)
        return True

    def is_first_left_out(self, account_id: str) -> bool:
        """Whether a call without a row is the account's first in this minute."""
        is_first = account_id not in self._left_out
        self._left_out.add(account_id)
        return is_first

    async def _ask(self, account_id: str, minute: int) -> None:
        status = await self._limiter.take(_refusals_of(account_id), REFUSALS_RECORDED_MAX)
        if status.refused is not None and minute == self._minute:
            left = max(REFUSALS_RECORDED_MAX, self._counts.get(account_id, 0))
            self._counts[account_id] = left

    async def close(self) -> None:
        """Ask no more."""
        for asking in self._asking:
            asking.cancel()
        if self._asking:
            await asyncio.wait(self._asking)


def _refusals_of(account_id: str) -> str:
    return f"refusals:{account_id}"


class RefusalRows:
    """Writes a row for each call that was refused before it held anything.

    Beyond `REFUSALS_RECORDED_MAX` of an account in a minute they are counted (contract §7).
    """

    def __init__(
        self,
        *,
        wallets: Wallets,
        current: LiveConfig,
        clock: Clock,
        metrics: Metrics,
        rate: RefusalRate,
    ) -> None:
        self._wallets = wallets
        self._current = current
        self._clock = clock
        self._metrics = metrics
        self._rate = rate

    def record(self, refusal: RefusedCall) -> None:
        """Queue the row, or count the call; does not wait."""
        now = self._clock.now()
        model = redact(refusal.model or "")
        known = self._current.registry.resolve(model)
        if self._rate.admits(refusal.principal.account_id):
            self._write(refusal, known.id if known is not None else model, now)
        else:
            self._metrics.refusal_without_row(refusal.error_code)
            if self._rate.is_first_left_out(refusal.principal.account_id):
                EventLog("gw.web").warning(
                    "refusals_not_recorded",
                    account=refusal.principal.account_id,
                    recorded_a_minute=REFUSALS_RECORDED_MAX,
                )
        self._metrics.call_started(refusal.protocol)
        self._metrics.call_finished(
            protocol=refusal.protocol,
            model=known.id if known is not None else "other",
            status="rejected",
            code=refusal.error_code,
            seconds=max(0.0, now - refusal.submitted_at),
        )

    def _write(self, refusal: RefusedCall, model: str, now: float) -> None:
        facts = CallFacts(
            call_id=refusal.call_id,
            account_id=refusal.principal.account_id,
            key_id=refusal.principal.key_id,
            protocol=refusal.protocol,
            model=model,
            submitted_at=refusal.submitted_at,
        )
        seconds = max(0.0, now - refusal.submitted_at)
        self._wallets.record(
            facts,
            Outcome(
                status="rejected",
                cost_nano_usd=0,
                created_at=now,
                latency_ms=round(seconds * 1000),
                error_code=refusal.error_code,
                error_message=redact(refusal.error_message),  # it may repeat text of the client
                detail=refusal.detail,
            ),
        )


async def until_settled(services: Services, account_id: str) -> None:
    """Wait until every settlement and row of the account is written. Raises StoreUnavailable.

    For reads of the database that must include everything that the client has seen.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await services.settled(account_id)
    except TimeoutError:
        raise StoreUnavailable("settlements are waiting for the database") from None


# Links to films served by the gateway itself, whose upstream has none.
#
# A client with a link needs no key until the link expires: the signature proves that the gateway
# made it, and every process signs with the same secret (contract-media §7).

# The job's field with the client's URL of the gateway, used without a `public_url`.
BASE_URL = "base_url"


class ContentLinks:
    """Makes links and validates them, with keys of 32 bytes; the first one signs."""

    def __init__(self, *keys: bytes, public_url: str) -> None:
        self._signer = LinkSigner(*keys)
        self._public_url = public_url

    def __repr__(self) -> str:
        return f"<ContentLinks {self._public_url}>"

    def link(self, job: Job, expires_at: float) -> str:
        """Return the link to a job's film, valid until `expires_at` (Unix seconds)."""
        base = self._public_url or job.request.get(BASE_URL, "")
        path = _path(job.id)
        return f"{base}{path}?{self._signer.query(path, math.floor(expires_at))}"

    def is_good(self, job_id: str, expires: str, signature: str, *, now: float) -> bool:
        """Whether the signature is valid and the link has not expired."""
        return self._signer.is_good(_path(job_id), expires, signature, now=now)


def _path(job_id: str) -> str:
    return f"/v1/videos/generations/{job_id}/content"


# The services of media endpoints, beside `Services`: use-cases and jobs (`gw/media_services.py`).

# Bounds of the files sent through a process at once to clients that show a signed link and no key:
# films have two connections and a buffer each, copies and source documents one and an open file.
FILMS_MAX = 200
FILES_MAX = 1000
# A player reads a few parts of a file at once; a link may be anywhere.
LINK_READERS_MAX = 8


class LinkReaders:
    """The files of one kind that are being sent: so many in all, a quarter of them of one account,
    LINK_READERS_MAX of one link."""

    def __init__(self, limit: int) -> None:
        self._accounts = Shares(limit, limit // 4)
        self._links = Shares(limit, LINK_READERS_MAX)

    def __repr__(self) -> str:
        return f"<LinkReaders {self._links!r}>"

    @contextmanager
    def reading(self, link: str, account_id: str = "") -> Iterator[None]:
        """Count one reader of a link within this context. Raises GatewayError above a bound."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self._accounts.held(account_id))
                stack.enter_context(self._links.held(link))
            except ShareRefused:
                message = "Too many files are read at once, or this one too often. Try again."
                raise GatewayError(NO_CHANNEL_AVAILABLE, message) from None
            yield


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaServices:
    """The services of media endpoints.

    `speech`, `voice` and `transcript` are made while the client waits.
    """

    pieces: Media[PieceCall]
    jobs: Jobs
    video_submit: JobSubmit
    speech_submit: JobSubmit
    upstreams: JobUpstreams  # for the deletion of results
    renewal: LinkRenewal
    content: JobContent
    content_links: ContentLinks
    films: LinkReaders
    speech: Media[SubmitCall]
    voice: Media[SubmitCall]
    transcript: Media[SubmitCall]
    voices: Voices
    catalogs: Catalogs


# The services of the call log's endpoints.


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """Created once by the composition root."""

    database: Database
    rates: Limiter  # the shared rate of a key for the three endpoints
    credits_per_usd: Decimal
    cursors: CursorSeal
    summaries: SummaryCache


# The services of knowledge bases, beside those of every handler.


@dataclass(frozen=True, slots=True, kw_only=True)
class WikiServices:
    """Created once by the composition root; `database` is a pool that calls do not use."""

    database: Database
    sources: Sources | BucketSources
    links: SourceLinks
    link_seconds: int

    async def linked(self, source: StoredSource, *, base_url: str, now: float) -> dict[str, Any]:
        """Return a source document with its link; `base_url` is the client's URL of the gateway."""
        return {
            "r2_key": source.r2_key,
            "filename": source.filename,
            "locator": source.locator,
            "url": await self._link(source.r2_key, base_url=base_url, now=now),
            "url_ttl_secs": self.link_seconds,
        }

    async def _link(self, name: str, *, base_url: str, now: float) -> str:
        """Return a link to a source, valid for `link_seconds`: the gateway's or the bucket's."""
        if isinstance(self.sources, BucketSources):
            return await asyncio.to_thread(self.sources.link, name, seconds=self.link_seconds)
        expires_at = int(now) + self.link_seconds
        return self.links.link(name, base_url=base_url, expires_at=expires_at)


def make_sources(config: Config) -> Sources | BucketSources:
    """Return the configured storage of sources."""
    if config.kb_store.kind == "s3":
        return BucketSources(config.kb_store.bucket)
    return Sources(config.kb_folder)


def make_wiki(config: Config, secret: Secret, database: Database) -> WikiServices:
    """Return the services of knowledge bases, with the pool of searches."""
    return WikiServices(
        database=database,
        sources=make_sources(config),
        links=SourceLinks(*secret.subkeys("gw source links"), public_url=config.public_url),
        link_seconds=config.kb_store.link_seconds,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The services of every handler, and the optional ones of some rooms."""

    keys: KeyCache
    wallets: Wallets
    # Returns when every process has written its rows of the account. Raises StoreUnavailable.
    settled: Callable[[str], Awaitable[None]]
    limits: AccountLimits
    current: LiveConfig  # replaced by reloads
    metrics: Metrics
    tracing: Tracing
    clock: Clock
    new_id: Callable[[], UUID]
    config: Config  # of the process's start
    refusals: Callable[[RefusedCall], None]
    idempotency: IdempotencyGuard
    chat_calls: ChatCalls
    media: MediaServices
    logs: LogServices
    wiki: WikiServices
    agents: Database  # a separate pool: agents and searches do not wait for each other
    media_store: MediaStore | None = None  # None: results stay at their upstreams
    in_flight: RequestsInFlight = field(default_factory=RequestsInFlight)
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(BODIES_BYTES))
    copies: LinkReaders = field(default_factory=lambda: LinkReaders(FILES_MAX))
    sources: LinkReaders = field(default_factory=lambda: LinkReaders(FILES_MAX))
    openings: RecentOpenings = field(default_factory=RecentOpenings)
    answers: AnswerBudget = field(default_factory=lambda: AnswerBudget(halves(ANSWERS_BYTES, 0)))
    overload: Overload = field(default_factory=lambda: Overload(None))
    # Runs the work on large bodies.
    offload: OffloadPool = field(default_factory=OffloadPool)


# The client's error when no upstream returns its list.


def unavailable(failure: CatalogUnavailable, redactor: Redactor) -> GatewayError:
    """Return the upstream's status and message; 502 if unreachable, 503 without such a channel."""
    reply = failure.reply
    if reply is None:
        return unserved("this list")
    message = redactor.text(reply.message) if reply.message else "The upstream did not tell."
    if isinstance(reply, Failed) and reply.is_unreachable:
        return GatewayError(UPSTREAM_UNREACHABLE, message)
    headers = retry_after_of(reply.status, reply.retry_after, redactor)
    return from_upstream(reply.status, message, headers=headers)
