"""The console: its routes on one page, and its services."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tornado.web import Application

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.supervisor import Supervisor
from channels.http.interfaces import UpstreamClient
from gw.admin.ledger import LedgerProofs
from gw.api.call_ids import new_call_id
from gw.api.logs.cursor import CursorSeal
from gw.config.config import ListenAddress
from gw.config.live import LiveConfig
from gw.console import calls, pages
from gw.console.account import AccountHandler, AccountsHandler, StatementHandler
from gw.console.agents import AgentsHandler
from gw.console.all_calls import AllCallsHandler
from gw.console.audit import AuditHandler
from gw.console.bases import ConsoleBasesHandler
from gw.console.channels import ChannelsHandler
from gw.console.figures import Figures
from gw.console.keys import KeyHandler, KeysHandler, RequestsHandler
from gw.console.models import ConsoleModelsHandler
from gw.console.overview import OverviewHandler, StreamHandler
from gw.console.playground import CostHandler, PlaygroundHandler, PlayHandler
from gw.console.sign_in import SessionsHandler, SignInHandler, SignOutHandler
from gw.console.system import SystemHandler
from gw.console.tasks import TasksHandler
from gw.console.tokens import TokensHandler
from gw.http.admin import AdminServer
from gw.keys.secret import Secret
from metrics.prometheus import Metrics

# Enough for the streams and pages of some dozen users.
CONNECTIONS_MAX = 256
BODY_BYTES_MAX = 256 * 1024

_ACCOUNT = r"/accounts/([A-Za-z0-9_]{1,64})"
_CALL = r"/calls/([0-9a-fA-F-]{1,36})"


def routes() -> list[tuple[str, type[Any]]]:
    """Return path and handler of each route."""
    return [
        (r"/", OverviewHandler),
        (r"/stream", StreamHandler),
        (r"/sign-in/([A-Za-z0-9_-]{1,100})", SignInHandler),
        (r"/sign-out", SignOutHandler),
        (r"/sessions", SessionsHandler),
        (r"/search", calls.CallSearchHandler),
        (r"/accounts", AccountsHandler),
        (_ACCOUNT, AccountHandler),
        (rf"{_ACCOUNT}/statement.csv", StatementHandler),
        (rf"{_ACCOUNT}/keys", KeysHandler),
        (rf"{_ACCOUNT}/keys/([A-Za-z0-9_]{{1,64}})", KeyHandler),
        (rf"{_ACCOUNT}/calls", calls.CallsHandler),
        (rf"{_ACCOUNT}/calls.csv", calls.CallsFileHandler),
        (r"/calls", AllCallsHandler),
        (_CALL, calls.CallHandler),
        (r"/channels", ChannelsHandler),
        (r"/models", ConsoleModelsHandler),
        (r"/playground", PlaygroundHandler),
        (r"/playground/call", PlayHandler),
        (r"/playground/cost", CostHandler),
        (r"/agents", AgentsHandler),
        (r"/bases", ConsoleBasesHandler),
        (r"/tasks", TasksHandler),
        (r"/requests", RequestsHandler),
        (r"/tokens", TokensHandler),
        (r"/system", SystemHandler),
        (r"/audit", AuditHandler),
        (r"/static/([a-z.]{1,40})", pages.StaticHandler),
    ]


def make_console(
    address: ListenAddress,
    *,
    supervisor: Supervisor,
    process_id: str,
    database: Database,
    current: LiveConfig,
    settled: Callable[[str], Awaitable[None]],
    channels: ChannelDirectory,
    metrics: Metrics,
    http: UpstreamClient,
    secret: Secret,
    clock: Clock,
    gateway_url: Callable[[], str],
    tls: ssl.SSLContext | None,
    shares_port: bool,
) -> AdminServer:
    """Return the console on its address, with its sampler started. Raises AddressRefused."""
    figures = Figures(
        process_id=process_id,
        database=database,
        current=current,
        channels=channels,
        metrics=metrics,
        clock=clock,
    )
    services = pages.ConsoleServices(
        current=current,
        database=database,
        settled=settled,
        channels=channels,
        metrics=metrics,
        http=http,
        secret=secret,
        clock=clock,
        new_id=new_call_id,
        cursors=CursorSeal(*secret.subkeys("gw console cursors")),
        figures=figures,
        gateway_url=gateway_url,
    )
    metrics.routes_served([pages.ROUTE])
    application = Application(
        routes(),
        default_handler_class=pages.ConsoleNotFoundHandler,
        log_function=partial(_count, metrics),
        services=services,
        proofs=LedgerProofs(database),
    )
    server = AdminServer(
        application,
        address,
        key="console_listen",
        tls=tls,
        shares_port=shares_port,
        connections_max=CONNECTIONS_MAX,
        body_bytes_max=BODY_BYTES_MAX,
    )
    supervisor.start("console", figures.run)
    return server


def _count(metrics: Metrics, handler: Any) -> None:
    """Count a response; Tornado would log it."""
    metrics.http_response(route=pages.ROUTE, status=handler.get_status())
