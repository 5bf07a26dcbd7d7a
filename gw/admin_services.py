"""The admin API of a process, made of the configuration and wired to the rest."""

from __future__ import annotations

from functools import partial

from actors.clock import Clock
from actors.limits.accounts import Limiter
from actors.routing import ChannelDirectory
from actors.store.database import Database
from channels.http.interfaces import Wire
from gw.admin.channels import ChannelStates
from gw.admin.ledger import LedgerProofs
from gw.api.admin.description import description
from gw.api.admin.routes import ROUTES
from gw.api.admin.server import AdminApi
from gw.api.admin.table import AdminServices
from gw.api.services import make_sources
from gw.config.config import LiveConfig
from gw.keys.secret import Secret
from gw.media_services import endings_of
from metrics.prometheus import Metrics


def make_admin_api(
    current: LiveConfig,
    *,
    database: Database,
    limiter: Limiter,
    channels: ChannelDirectory,
    wire: Wire,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> AdminApi:
    """Make it; `database` is a pool of its own. To be closed."""
    services = AdminServices(
        database=database,
        current=current,
        secret=secret,
        clock=clock,
        channels=channels,
        states=ChannelStates(database),
        proofs=LedgerProofs(database),
        wire=wire,
        sources=make_sources(current.config),
        make_endings=endings_of(
            current, database=database, wire=wire, secret=secret, clock=clock, metrics=metrics
        ),
    )
    return AdminApi(ROUTES, services, limiter=limiter, description=partial(description, ROUTES))
