"""The public application: what the endpoints use, made of the configuration and what runs below."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from actors.clock import Clock
from actors.directory import ChannelDirectory
from actors.limits.accounts import AccountLimits
from actors.limits.limiter import Limiter
from actors.live import LiveCalls
from actors.media_store.worker import MediaStore
from actors.parent.link import ParentLink
from actors.wallet.wallets import Wallets
from channels.http.interfaces import Wire
from channels.offload.pool import OffloadPool
from gw.api.application import GatewayApplication
from gw.api.chat.agent_services import AgentServices
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.services import LogServices
from gw.api.logs.summary_cache import SummaryCache
from gw.api.media_services import MediaServices
from gw.api.overload import Overload
from gw.api.services import Services
from gw.api.wiki.services import make_wiki
from gw.app import make_application
from gw.calls.billing import Billing
from gw.calls.conversation import Conversation
from gw.http.body import BodyBudget
from gw.http.drain import RequestsInFlight
from gw.idempotency.guard import IdempotencyGuard
from gw.idempotency.store import IdempotencyStore
from gw.ids import new_call_id
from gw.keys.cache import KeyCache
from gw.keys.secret import Secret
from gw.live_config import LiveConfig
from gw.media_services import make_media_services
from gw.media_store import links_of
from gw.pools import Pools
from gw.refusals import RefusalRows
from metrics.prometheus import Metrics
from metrics.tracing import Tracing


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What a process has running before it serves anybody."""

    keys: KeyCache
    wallets: Wallets
    settled: Callable[[str], Awaitable[None]]  # of an account, in every process
    live: LiveCalls
    limiter: Limiter
    channels: ChannelDirectory
    pools: Pools
    secret: Secret
    parent: ParentLink | None
    in_flight: RequestsInFlight
    overload: Overload
    clock: Clock
    metrics: Metrics


def make_endpoints(
    current: LiveConfig,
    below: Foundation,
    *,
    wire: Wire,
    offload: OffloadPool,
    tracing: Tracing,
    media_store: MediaStore | None,
) -> tuple[GatewayApplication, MediaServices]:
    """Make the application; the services of media come along, whose catalogs are to be closed."""
    config, clock, metrics = current.config, below.clock, below.metrics
    billing = Billing(
        wallets=below.wallets,
        live=below.live,
        redactor=current.redactor,
        clock=clock,
        metrics=metrics,
    )
    conversation = Conversation(
        billing=billing,
        channels=below.channels,
        wire=wire,
        redactor=current.redactor,
        price_of=current.price_of,
        clock=clock,
        timeout_seconds=config.timeouts.chat,
        response_bytes_max=config.max_body_bytes,
        offload=offload,
        precharge=config.precharge,
        metrics=metrics,
    )
    media = make_media_services(
        current,
        billing=billing,
        channels=below.channels,
        database=below.pools.calls,
        links=links_of(media_store, config.public_url),
        wire=wire,
        in_flight=below.in_flight,
        secret=below.secret,
        clock=clock,
        metrics=metrics,
    )
    application = make_application(
        _services(current, below, offload=offload, tracing=tracing),
        conversation=conversation,
        media_store=media_store,
        media=media,
        logs=LogServices(
            database=below.pools.logs,
            rates=below.limiter,
            redact=current.redact,
            credits_per_usd=config.credits_per_usd,
            cursors=CursorSeal(*below.secret.subkeys("gw log cursors")),
            summaries=SummaryCache(clock, shared=below.parent),
        ),
        wiki_services=make_wiki(config, below.secret, below.pools.knowledge),
        agents=AgentServices(below.pools.agents, lambda: current.config),
    )
    return application, media


def _services(
    current: LiveConfig, below: Foundation, *, offload: OffloadPool, tracing: Tracing
) -> Services:
    """What every endpoint may use."""
    config, clock, metrics = current.config, below.clock, below.metrics
    refusals = RefusalRows(
        wallets=below.wallets, registry=current.registry, clock=clock, metrics=metrics
    )
    return Services(
        keys=below.keys,
        wallets=below.wallets,
        settled=below.settled,
        limits=AccountLimits(limiter=below.limiter, metrics=metrics),
        registry=current.registry,
        metrics=metrics,
        tracing=tracing,
        clock=clock,
        new_id=new_call_id,
        config=config,
        refusals=refusals.record,
        idempotency=IdempotencyGuard(
            kept=IdempotencyStore(below.pools.calls),
            response_bytes_max=config.idempotency_max_bytes,
            metrics=metrics,
        ),
        redact=current.redact,
        translations=lambda: current.config.translations,
        in_flight=below.in_flight,
        bodies=BodyBudget(max(config.max_bodies_bytes, config.max_body_bytes)),
        overload=below.overload,
        offload=offload,
    )
