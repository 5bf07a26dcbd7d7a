"""The console: its routes on one page, and what it needs of the process it runs in."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from tornado.web import Application

from actors.actor import Supervisor
from actors.clock import Clock
from actors.routing import ChannelDirectory
from actors.store.database import Database
from channels.http.interfaces import Wire
from gw.admin.ledger import LedgerProofs
from gw.api.base import new_call_id
from gw.api.logs.list_query import CursorSeal
from gw.config.config import ListenAddress, LiveConfig
from gw.console.account import AccountHandler, AccountsHandler, StatementHandler
from gw.console.calls import (
    CallHandler,
    CallsFileHandler,
    CallsHandler,
    RecentHandler,
    SearchHandler,
)
from gw.console.figures import Figures
from gw.console.keys import KeyHandler, KeysHandler, RequestsHandler
from gw.console.lists import AgentsHandler, BasesHandler, TasksHandler
from gw.console.operations import ChannelsHandler, ModelsHandler, SystemHandler
from gw.console.overview import OverviewHandler, StreamHandler
from gw.console.pages import ConsoleServices, NotFoundHandler, StaticHandler
from gw.console.playground import CostHandler, PlaygroundHandler, PlayHandler
from gw.console.signing_in import (
    AuditHandler,
    SessionsHandler,
    SignInHandler,
    SignOutHandler,
    TokensHandler,
)
from gw.http.admin import AdminServer
from gw.keys.secret import Secret
from metrics.prometheus import Metrics

# Streams and the pages of a small crowd.
CONNECTIONS_MAX = 256
BODY_BYTES_MAX = 256 * 1024

_ACCOUNT = r"/accounts/([A-Za-z0-9_]{1,64})"
_CALL = r"/calls/([0-9a-fA-F-]{1,36})"


def routes() -> list[tuple[str, type[Any]]]:
    """Path to handler."""
    return [
        (r"/", OverviewHandler),
        (r"/stream", StreamHandler),
        (r"/sign-in/([A-Za-z0-9_-]{1,100})", SignInHandler),
        (r"/sign-out", SignOutHandler),
        (r"/sessions", SessionsHandler),
        (r"/search", SearchHandler),
        (r"/accounts", AccountsHandler),
        (_ACCOUNT, AccountHandler),
        (rf"{_ACCOUNT}/statement.csv", StatementHandler),
        (rf"{_ACCOUNT}/keys", KeysHandler),
        (rf"{_ACCOUNT}/keys/([A-Za-z0-9_]{{1,64}})", KeyHandler),
        (rf"{_ACCOUNT}/calls", CallsHandler),
        (rf"{_ACCOUNT}/calls.csv", CallsFileHandler),
        (r"/calls", RecentHandler),
        (_CALL, CallHandler),
        (r"/channels", ChannelsHandler),
        (r"/models", ModelsHandler),
        (r"/playground", PlaygroundHandler),
        (r"/playground/call", PlayHandler),
        (r"/playground/cost", CostHandler),
        (r"/agents", AgentsHandler),
        (r"/bases", BasesHandler),
        (r"/tasks", TasksHandler),
        (r"/requests", RequestsHandler),
        (r"/tokens", TokensHandler),
        (r"/system", SystemHandler),
        (r"/audit", AuditHandler),
        (r"/static/([a-z.]{1,40})", StaticHandler),
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
    wire: Wire,
    secret: Secret,
    clock: Clock,
    gateway_url: Callable[[], str],
    tls: ssl.SSLContext | None,
    shares_port: bool,
) -> AdminServer:
    """The console on its address, its sampler started. Raises AddressRefused."""
    figures = Figures(
        process_id=process_id,
        database=database,
        current=current,
        channels=channels,
        metrics=metrics,
        clock=clock,
    )
    services = ConsoleServices(
        current=current,
        database=database,
        settled=settled,
        channels=channels,
        metrics=metrics,
        wire=wire,
        secret=secret,
        clock=clock,
        new_id=new_call_id,
        cursors=CursorSeal(*secret.subkeys("gw console cursors")),
        figures=figures,
        gateway_url=gateway_url,
    )
    application = Application(
        routes(),
        default_handler_class=NotFoundHandler,
        log_function=_no_log,
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


def _no_log(handler: Any) -> None:
    """Requests are not logged one by one."""
