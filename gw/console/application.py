"""The console: its routes on one page, signing in and out, and its services."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import structs
from tornado.web import Application

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.supervisor import Supervisor
from channels.http.interfaces import UpstreamClient
from gw.admin import audit, tokens, values
from gw.admin.audit import AuditEntry, AuditQuery
from gw.admin.ledger import LedgerProofs
from gw.admin.refusals import Invalid
from gw.admin.tokens import SCOPES
from gw.api.call_ids import new_call_id
from gw.api.logs.list_query import CursorSeal
from gw.config.config import ListenAddress
from gw.config.live import LiveConfig
from gw.console import sessions
from gw.console.account import AccountHandler, AccountsHandler, StatementHandler
from gw.console.all_calls import AllCallsHandler
from gw.console.calls import CallHandler, CallsFileHandler, CallsHandler, SearchHandler
from gw.console.figures import Figures
from gw.console.keys import KeyHandler, KeysHandler, RequestsHandler
from gw.console.operations import (
    AgentsHandler,
    BasesHandler,
    ChannelsHandler,
    ModelsHandler,
    SystemHandler,
    TasksHandler,
)
from gw.console.overview import OverviewHandler, StreamHandler
from gw.console.pages import (
    ROUTE,
    ConsoleHandler,
    ConsoleServices,
    NotFoundHandler,
    StaticHandler,
    actor_of,
    change,
)
from gw.console.playground import CostHandler, PlaygroundHandler, PlayHandler
from gw.console.sessions import SESSION_SECONDS
from gw.http.admin import AdminServer
from gw.keys.secret import Secret
from metrics.prometheus import Metrics

# Sign-in and sign-out, the list of sessions, and the audit trail.

TOKENS_PAGE = 100


class SignInHandler(ConsoleHandler):
    """A sign-in link: its page has a button, so that previews of the address do not use it."""

    needs_session = False

    async def get(self, token: str) -> None:
        is_good = await sessions.is_good_link(self.services.database, token)
        self.page("sign_in.html", http_status=200 if is_good else 410, is_good=is_good)

    async def head(self, token: str) -> None:
        """Respond to HEAD without using the link."""

    async def post(self, token: str) -> None:
        async with self.services.database.transaction() as transaction:
            found = await sessions.sign_in(
                transaction,
                token,
                origin=self.request.remote_ip or "",
                browser=self.request.headers.get("User-Agent", ""),
            )
            if found is not None:
                await audit.note(
                    transaction,
                    actor_of(found[1]),
                    "console.sign_in",
                    found[1].id,
                    account_id=found[1].account_id,
                )
        if found is None:
            self.page("sign_in.html", http_status=410, is_good=False)
            return
        # Lax, so that links to calls from other sites work; forms carry a token.
        self.set_cookie(
            self.cookie_name,
            found[0],
            max_age=SESSION_SECONDS,
            httponly=True,
            secure=self.is_secure,
            samesite="Lax",
            path="/",
        )
        self.redirect("/", status=303)


class SignOutHandler(ConsoleHandler):
    """Ends the own session."""

    async def post(self) -> None:
        async with change(self) as (transaction, actor):
            await sessions.end(transaction, self.who.id, self.who.account_id)
            await audit.note(
                transaction,
                actor,
                "console.sign_out",
                self.who.id,
                account_id=self.who.account_id,
            )
        self.clear_cookie(self.cookie_name, path="/", secure=self.is_secure, httponly=True)
        self.session = None
        self.page("signed_out.html")


class SessionsHandler(ConsoleHandler):
    """Open sessions: all of them for operators, an account's for its owner."""

    async def get(self) -> None:
        found = await sessions.list_open(self.services.database, self.who.account_id)
        self.page("sessions.html", sessions=found)

    async def post(self) -> None:
        session_id = self.field("id")
        async with change(self) as (transaction, actor):
            if not await sessions.end(transaction, session_id, self.who.account_id):
                self.refuse(404, "error.not_found")
            await audit.note(
                transaction,
                actor,
                "console.session_end",
                session_id,
                account_id=self.who.account_id,
            )
        self.redirect("/sessions", status=303)


class AuditHandler(ConsoleHandler):
    """The audit trail: all of it for operators, an account's for its owner."""

    async def get(self) -> None:
        query = AuditQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        try:
            page = await audit.trail(self.services.database, query)
        except Invalid:
            self.refuse(400, "error.request")
        entries = page.data if self.who.is_operator else [as_seen_by_owner(e) for e in page.data]
        self.page("audit.html", entries=entries, cursor=page.next_cursor)


def as_seen_by_owner(entry: AuditEntry) -> AuditEntry:
    """Return a change without the operator's name, host and address.

    An owner's session was named after the operator who made its link; its id remains.
    """
    if entry.actor_kind != "owner":
        return structs.replace(entry, actor_kind="operator", actor="", origin="")
    session_id = entry.actor.rpartition("(")[2].removesuffix(")")
    return structs.replace(entry, actor=session_id)


class TokensHandler(ConsoleHandler):
    """Tokens of the admin API, newest first: created, shown once, revoked."""

    for_operators = True

    async def get(self) -> None:
        await self._show(None)

    async def post(self) -> None:
        act = self.field("act")
        if act == "revoke":
            async with change(self) as (transaction, actor):
                await tokens.revoke(transaction, actor, self.field("id"))
            self.redirect("/tokens", status=303)
            return
        scope = next((one for one in SCOPES if one == self.field("scope")), None)
        if act != "create" or scope is None:
            self.refuse(400, "error.request")
        async with change(self) as (transaction, actor):
            name = values.label(self.field("name"))
            _, text = await tokens.create(transaction, actor, name, scope)
        await self._show(text)

    async def _show(self, text: str | None) -> None:
        """Render the page; a new token's text is only in the response to a form."""
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        found = (await tokens.list_all(self.services.database))[::-1]
        self.page(
            "tokens.html",
            tokens=found[start : start + TOKENS_PAGE],
            next_start=start + TOKENS_PAGE if len(found) > start + TOKENS_PAGE else None,
            text=text,
            scopes=SCOPES,
        )


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
        (r"/search", SearchHandler),
        (r"/accounts", AccountsHandler),
        (_ACCOUNT, AccountHandler),
        (rf"{_ACCOUNT}/statement.csv", StatementHandler),
        (rf"{_ACCOUNT}/keys", KeysHandler),
        (rf"{_ACCOUNT}/keys/([A-Za-z0-9_]{{1,64}})", KeyHandler),
        (rf"{_ACCOUNT}/calls", CallsHandler),
        (rf"{_ACCOUNT}/calls.csv", CallsFileHandler),
        (r"/calls", AllCallsHandler),
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
    services = ConsoleServices(
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
    metrics.routes_served([ROUTE])
    application = Application(
        routes(),
        default_handler_class=NotFoundHandler,
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
    metrics.http_response(route=ROUTE, status=handler.get_status())
