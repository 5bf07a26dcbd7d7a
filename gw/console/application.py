"""The console: its routes on one page, and its services."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypedDict

from tornado.web import Application

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.supervisor import Supervisor
from channels.http.interfaces import UpstreamClient
from gw.admin.ledger import LedgerProofs
from gw.api.call_ids import new_call_id
from gw.api.logs.cursor import CursorSeal
from gw.config.addresses import ListenAddress
from gw.config.live import LiveConfig
from gw.console import calls
from gw.console.account import AccountHandler, AccountsHandler, StatementHandler
from gw.console.agents import AgentsHandler
from gw.console.all_calls import AllCallsHandler
from gw.console.audit import AuditHandler
from gw.console.bases import ConsoleBasesHandler
from gw.console.budgets import BudgetHandler, BudgetsHandler
from gw.console.channels import ChannelsHandler
from gw.console.events import EventsHandler
from gw.console.figures import Figures
from gw.console.keys import KeyHandler, KeysHandler, RequestsHandler
from gw.console.models import ConsoleModelsHandler
from gw.console.overview import OverviewHandler, StreamHandler
from gw.console.page import Audience, Page
from gw.console.pages import ROUTE, ConsoleNotFoundHandler, ConsoleServices, StaticHandler
from gw.console.playground import CostHandler, PlaygroundHandler, PlayHandler
from gw.console.reference import DocumentHandler, ReferenceHandler
from gw.console.sign_in import SessionsHandler, SignInHandler, SignOutHandler
from gw.console.system import SystemHandler
from gw.console.tasks import TasksHandler
from gw.console.tokens import TokensHandler
from gw.console.usage import UsageHandler
from gw.console.webhooks import WebhookHandler, WebhooksHandler
from gw.http.admin import AdminServer
from gw.http.served_path import rules_of
from gw.keys.end_users import EndUserKey
from gw.keys.secret import Secret
from metrics.prometheus import Metrics

# Enough for the streams and pages of some dozen users.
CONNECTIONS_MAX = 256
# Of a form: of a few fields; with every model ticked, or a prompt of the playground, each character
# of which may be twelve in a form.
FORM_BYTES_MAX = 64 * 1024
LONG_FORM_BYTES_MAX = 256 * 1024

_ACCOUNT = r"/accounts/([A-Za-z0-9_]{1,64})"
_CALL = r"/calls/([0-9a-fA-F-]{1,36})"


class _Form(TypedDict):
    """Members of a page with a form."""

    methods: tuple[str, ...]
    body_bytes_max: int


class _Readers(TypedDict):
    readers: Audience


_FORM: _Form = {"methods": ("GET", "POST"), "body_bytes_max": FORM_BYTES_MAX}
_LONG_FORM: _Form = {**_FORM, "body_bytes_max": LONG_FORM_BYTES_MAX}
_SENT: _Form = {**_FORM, "methods": ("POST",)}
_OPERATORS: _Readers = {"readers": "operators"}


def routes() -> list[Page]:
    """Every page."""
    return [
        Page(r"/", OverviewHandler),
        Page(r"/stream", StreamHandler),
        Page(
            r"/sign-in/([A-Za-z0-9_-]{1,100})",
            SignInHandler,
            ("GET", "HEAD", "POST"),
            body_bytes_max=FORM_BYTES_MAX,
            readers="everybody",
        ),
        Page(r"/sign-out", SignOutHandler, **_SENT),
        Page(r"/sessions", SessionsHandler, **_FORM),
        Page(r"/search", calls.CallSearchHandler),
        Page(r"/accounts", AccountsHandler, **_FORM, **_OPERATORS),
        Page(_ACCOUNT, AccountHandler, **_FORM, senders="operators", of_account=True),
        Page(rf"{_ACCOUNT}/statement.csv", StatementHandler, of_account=True),
        Page(rf"{_ACCOUNT}/keys", KeysHandler, **_LONG_FORM, of_account=True),
        Page(rf"{_ACCOUNT}/keys/([A-Za-z0-9_]{{1,64}})", KeyHandler, **_LONG_FORM, of_account=True),
        Page(rf"{_ACCOUNT}/budgets", BudgetsHandler, **_FORM, of_account=True),
        Page(
            rf"{_ACCOUNT}/budgets/([A-Za-z0-9_]{{1,64}})", BudgetHandler, **_FORM, of_account=True
        ),
        Page(rf"{_ACCOUNT}/usage", UsageHandler, of_account=True),
        Page(rf"{_ACCOUNT}/calls", calls.CallsHandler, of_account=True),
        Page(rf"{_ACCOUNT}/calls.csv", calls.CallsFileHandler, of_account=True),
        Page(r"/calls", AllCallsHandler, **_OPERATORS),
        Page(_CALL, calls.CallHandler),
        Page(r"/channels", ChannelsHandler, **_FORM, **_OPERATORS),
        Page(r"/models", ConsoleModelsHandler, **_OPERATORS),
        Page(r"/playground", PlaygroundHandler),
        Page(r"/playground/call", PlayHandler, ("POST",), body_bytes_max=LONG_FORM_BYTES_MAX),
        Page(r"/playground/cost", CostHandler),
        Page(r"/reference", ReferenceHandler),
        Page(r"/reference/openapi.json", DocumentHandler),
        Page(r"/agents", AgentsHandler, **_FORM),
        Page(r"/bases", ConsoleBasesHandler),
        Page(r"/tasks", TasksHandler, **_FORM, senders="operators"),
        Page(r"/requests", RequestsHandler, **_FORM, **_OPERATORS),
        Page(r"/tokens", TokensHandler, **_FORM, **_OPERATORS),
        Page(r"/system", SystemHandler, **_FORM, **_OPERATORS),
        Page(r"/events", EventsHandler, **_OPERATORS),
        Page(r"/webhooks", WebhooksHandler, **_FORM, **_OPERATORS),
        Page(r"/webhooks/([A-Za-z0-9_]{1,64})", WebhookHandler, **_FORM, **_OPERATORS),
        Page(r"/audit", AuditHandler),
        Page(r"/static/([a-z.]{1,40})", StaticHandler, readers="everybody", is_cached=True),
    ]


NOT_FOUND = Page("", ConsoleNotFoundHandler, (), readers="everybody")


def make_application(
    services: ConsoleServices, proofs: LedgerProofs, pages: Sequence[Page]
) -> Application:
    """Build the application that the console serves. Raises MisstatedRow."""
    return Application(
        rules_of(pages),
        default_handler_class=ConsoleNotFoundHandler,
        default_handler_args={"row": NOT_FOUND},
        log_function=partial(_count, services.metrics),
        services=services,
        proofs=proofs,
    )


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
    end_users: EndUserKey,
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
    services = ConsoleServices(
        current=current,
        database=database,
        settled=settled,
        channels=channels,
        metrics=metrics,
        http=http,
        secret=secret,
        end_users=end_users,
        clock=clock,
        new_id=new_call_id,
        cursors=CursorSeal(*secret.subkeys("gw console cursors")),
        figures=figures,
        gateway_url=gateway_url,
    )
    metrics.routes_served([ROUTE])
    server = AdminServer(
        make_application(services, LedgerProofs(database), routes()),
        address,
        key="console_listen",
        tls=tls,
        shares_port=shares_port,
        connections_max=CONNECTIONS_MAX,
    )
    supervisor.start("console", figures.run)
    return server


def _count(metrics: Metrics, handler: Any) -> None:
    """Count a response; Tornado would log it."""
    metrics.http_response(route=ROUTE, status=handler.get_status())
