"""The services of handlers, as one frozen object created by the composition root (`gw/serve.py`).

Media, call log and knowledge bases have objects of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from actors.catalogs import Catalogs
from actors.clock import Clock
from actors.jobs.content import JobContent
from actors.jobs.link_renewal import LinkRenewal
from actors.jobs.service import Jobs
from actors.jobs.upstreams import JobUpstreams
from actors.limits.accounts import AccountLimits
from actors.limits.limiter import Limiter
from actors.media_store.worker import MediaStore
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.wallet.wallets import Wallets
from channels.answers import ANSWERS_BYTES, AnswerBudget
from channels.body_budget import BODIES_BYTES, BodyBudget
from channels.offload.pool import OffloadPool
from channels.shares import halves
from gw.api.knowledge.services import WikiServices
from gw.api.link_readers import FILES_MAX, LinkReaders
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.summary_cache import SummaryCache
from gw.api.refusals import RefusedCall
from gw.api.videos.content_links import ContentLinks
from gw.calls.attribution import EndUsers
from gw.calls.chat import ChatCalls
from gw.calls.jobs import JobSubmit
from gw.calls.media import Media
from gw.calls.media_calls import PieceCall, SubmitCall
from gw.calls.openings import RecentOpenings
from gw.config.config import Config
from gw.config.live import LiveConfig
from gw.http.drain import RequestsInFlight
from gw.http.overload import Overload
from gw.idempotency.guard import IdempotencyGuard
from gw.keys.cache import KeyCache
from gw.voices import Voices
from metrics.prometheus import Metrics
from metrics.tracing import Tracing

# Timeout of settlements, which take milliseconds while the database is available.
SETTLE_SECONDS = 5.0


async def until_settled(services: Services, account_id: str) -> None:
    """Wait until every settlement and row of the account is written. Raises StoreUnavailable.

    For reads of the database that must include everything that the client has seen.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS):
            await services.settled(account_id)
    except TimeoutError:
        raise StoreUnavailable("settlements are waiting for the database") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaServices:
    """The services of media endpoints.

    `speech`, `voice` and `transcript` are made while the client waits.
    """

    pieces: Media[PieceCall]
    embeddings: Media[PieceCall]
    decisions: Media[PieceCall]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogServices:
    """The services of the call log's endpoints."""

    database: Database
    rates: Limiter  # the shared rate of a key for the three endpoints
    credits_per_usd: Decimal
    cursors: CursorSeal
    summaries: SummaryCache


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
    end_users: EndUsers
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
