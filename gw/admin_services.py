"""Creates the admin API of a process: its routes and its services."""

from __future__ import annotations

from functools import partial

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.limits.limiter import Limiter
from actors.store.database import Database
from channels.http.interfaces import UpstreamClient
from gw.admin.channel_states import ChannelStates
from gw.admin.ledger import LedgerProofs
from gw.api.admin import (
    accounts,
    agents,
    audit,
    budgets,
    channels,
    conditions,
    events,
    keys,
    knowledge_bases,
    ledger,
    models,
    tasks,
    webhooks,
)
from gw.api.admin.openapi import description
from gw.api.admin.server import AdminApi
from gw.api.admin.table import AdminServices, Route
from gw.api.knowledge.services import make_sources
from gw.config.live import LiveConfig
from gw.keys.secret import Secret
from gw.media_services import endings_of
from metrics.prometheus import Metrics

_NOUNS = (
    *(accounts, keys, audit, agents, budgets, knowledge_bases, tasks),
    *(channels, models, ledger, conditions, events, webhooks),
)
ROUTES: tuple[Route, ...] = tuple(route for noun in _NOUNS for route in noun.ROUTES)


def make_admin_api(
    current: LiveConfig,
    *,
    database: Database,
    limiter: Limiter,
    channels: ChannelDirectory,
    http: UpstreamClient,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> AdminApi:
    """Return the API, to be closed; `database` is its own pool."""
    services = AdminServices(
        database=database,
        current=current,
        secret=secret,
        clock=clock,
        channels=channels,
        states=ChannelStates(database),
        proofs=LedgerProofs(database),
        http=http,
        sources=make_sources(current.config),
        make_endings=endings_of(
            current, database=database, http=http, secret=secret, clock=clock, metrics=metrics
        ),
    )
    return AdminApi(
        ROUTES,
        services,
        limiter=limiter,
        description=partial(description, ROUTES),
        metrics=metrics,
    )
