"""The base of every page: what its row asks of a request, the headers, error pages.

A page is a template of `templates/` and texts of `messages.yaml`, both read once. No page has
inline scripts or styles, so that injected text could not run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from typing import Any, NoReturn
from urllib.parse import urlsplit
from uuid import UUID

from tornado.httputil import HTTPInputError, parse_body_arguments
from tornado.template import Loader
from tornado.web import HTTPError

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.database import Database
from actors.store.errors import StoreError, StoreUnavailable
from actors.store.session import Session as Transaction
from actors.wallet.ledger import UnknownAccount
from channels.http.interfaces import UpstreamClient
from channels.shares import OWNER
from gw import accounts
from gw.accounts import Account
from gw.api.failures import is_own_failure
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.parameters import Parameters
from gw.config.live import LiveConfig
from gw.console import sessions
from gw.console.figures import Figures
from gw.console.page import Page
from gw.console.rendering import Renderer
from gw.console.sessions import Session
from gw.console.static_files import StaticFile
from gw.console.texts import TEXTS
from gw.cursors import BadCursor, Position, read_position
from gw.errors import GatewayError
from gw.http.admin import is_inner
from gw.http.served_path import PathHandler, PathRefused, ServedPath
from gw.keys.end_users import EndUserKey
from gw.keys.secret import Secret
from metrics.logs import EventLog
from metrics.prometheus import Metrics

COOKIE = "gw_console"
CSRF_FIELD = "csrf"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
FIELD_CHARACTERS_MAX = 4000
_OF_STATUS = {404: "error.not_found", 405: "error.method", 413: "error.large", 421: "error.host"}
# Of every page, as a label of the metrics.
ROUTE = "console"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleServices:
    """The services of the pages. `settled` waits for pending writes of every process."""

    current: LiveConfig
    database: Database
    settled: Callable[[str], Awaitable[None]]
    channels: ChannelDirectory
    metrics: Metrics
    http: UpstreamClient
    secret: Secret
    end_users: EndUserKey
    clock: Clock
    new_id: Callable[[], UUID]
    cursors: CursorSeal
    figures: Figures
    gateway_url: Callable[[], str]


_FOLDER = files("gw.console")
TEMPLATES = Loader(str(_FOLDER.joinpath("templates")), whitespace="single")
STATIC: Mapping[str, StaticFile] = {
    "console.css": StaticFile.read("console.css", "text/css; charset=utf-8"),
    "console.js": StaticFile.read("console.js", "text/javascript; charset=utf-8"),
    "icon.svg": StaticFile.read("icon.svg", "image/svg+xml"),
    "reference.js": StaticFile.read("reference.js", "text/javascript; charset=utf-8"),
    "swagger.js": StaticFile.read("swagger.js.gz", "text/javascript; charset=utf-8"),
    "swagger.css": StaticFile.read("swagger.css.gz", "text/css; charset=utf-8").without_pictures(),
}
VERSION = hashlib.sha256(b"".join(one.body for one in STATIC.values())).hexdigest()[:12]


class ConsoleHandler(PathHandler):
    """Any response of the console: its headers, and its errors as pages."""

    row: Page
    session: Session | None = None
    _token = ""
    _form = ""

    @property
    def services(self) -> ConsoleServices:
        """The services of the page."""
        services: ConsoleServices = self.settings["services"]
        return services

    def initialize(self, row: ServedPath) -> None:
        super().initialize(row)
        self.trace = self.services.new_id().hex
        self.set_header("x-gateway-trace", self.trace)

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)
        if self.request.protocol == "https":
            self.set_header("Strict-Transport-Security", "max-age=31536000")

    # --- Before the page ---

    def is_known_host(self) -> bool:
        config = self.services.current.config
        known = {config.console_listen.host if config.console_listen else ""}
        if config.console_url:
            known.add(urlsplit(config.console_url).hostname or "")
        return is_inner(self.request.host_name.lower(), known)

    async def identify(self) -> None:
        if self.row.is_cached:
            self.set_header("Cache-Control", "public, max-age=31536000, immutable")
            return
        self._token = self.get_cookie(self.cookie_name) or ""
        if self._token:
            database = self.services.database
            self.session = await sessions.find(database, self._token)
            if self.session is not None:
                OWNER.set(self.session.owner)
                await sessions.see(database, self.session, self.now)

    async def check(self) -> None:
        is_form = self.request.method == "POST"
        if is_form:
            self._check_origin()
        audience = self.row.audience(self.request.method or "")
        if audience != "everybody" and self.session is None:
            self.refuse(401, "error.session")
        if audience == "operators" and not self.who.is_operator:
            self.refuse(404, "error.not_found")
        if self.row.of_account:
            self._check_account(self.path_args[0])
        if is_form:
            self._read_form()
        if is_form and audience != "everybody":
            self._check_csrf()

    def _check_origin(self) -> None:
        """Check that a form was sent by a page of the console."""
        origin = self.request.headers.get("Origin")
        if origin is None:
            site = self.request.headers.get("Sec-Fetch-Site")
            if site not in (None, "same-origin"):
                self.refuse(403, "error.origin")
            return
        mine = {self.request.host}
        if self.services.current.config.console_url:
            mine.add(urlsplit(self.services.current.config.console_url).netloc)
        if urlsplit(origin).netloc not in mine:
            self.refuse(403, "error.origin")

    def _check_account(self, account_id: str) -> None:
        if self.who.account_id not in (None, account_id):
            self.refuse(404, "error.not_found")

    def _read_form(self) -> None:
        request, kind = self.request, self.request.headers.get("Content-Type", "")
        try:
            parse_body_arguments(
                kind, self.body, request.body_arguments, request.files, request.headers
            )
        except HTTPInputError:
            self.refuse(400, "error.request")

    def _check_csrf(self) -> None:
        """Check the form's token, which only a page of this session has."""
        given = self.get_body_argument(CSRF_FIELD, "") or self.request.headers.get("X-Csrf", "")
        if not sessions.is_form_token(given, self._token):
            self.refuse(403, "error.csrf")
        self._form = given

    async def book(self, transaction: Transaction) -> None:
        """Refuse the form if it was booked before: a page's form changes something once."""
        of_page = (self.request.path, self.get_body_argument("act", ""))
        form = (self._form, *of_page, self.get_body_argument("id", ""))
        if not await sessions.book_form(transaction, *form):
            self.refuse(409, "error.sent")

    @property
    def is_secure(self) -> bool:
        """Whether the console is reached by TLS, its own or a proxy's."""
        url = self.services.current.config.console_url
        return self.request.protocol == "https" or url.startswith("https:")

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which only this host can set if the connection allows it."""
        return f"__Host-{COOKIE}" if self.is_secure else COOKIE

    @property
    def who(self) -> Session:
        """The session of a page that needs one."""
        assert self.session is not None
        return self.session

    @property
    def now(self) -> datetime:
        """The current time."""
        return datetime.fromtimestamp(self.services.clock.now(), UTC)

    def after(self) -> tuple[datetime, str] | None:
        """Return where a list by age continues; None: at its beginning, as for an old cursor."""
        try:
            position = read_position(self.parameters.text("after") or "", Position)
        except BadCursor:
            return None
        return position.at, position.id

    async def account(self, account_id: str) -> Account:
        """Return an account visible to the session, else 404."""
        self._check_account(account_id)
        try:
            return await accounts.show(self.services.database, account_id)
        except UnknownAccount:
            self.refuse(404, "error.not_found")

    @cached_property
    def parameters(self) -> Parameters:
        """The query of the page."""
        return Parameters(self.request.query_arguments)

    def field(self, name: str) -> str:
        """Return a field of a form, without surrounding white space."""
        value = self.get_body_argument(name, "")
        if len(value) > FIELD_CHARACTERS_MAX:
            self.refuse(400, "error.long")
        return value

    # --- Response ---

    def refuse(self, status: int, name: str, /, **values: object) -> NoReturn:
        """End the request with an error page of this text."""
        raise ShownError(status, TEXTS(name, **values))

    def page(self, template: str, *, http_status: int = 200, **values: Any) -> None:
        """Write a page."""
        self.set_status(http_status)
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(
            TEMPLATES.load(template).generate(
                t=TEXTS,
                v=VERSION,
                session=self.session,
                csrf=sessions.form_token(self._token) if self.session else "",
                path=self.request.path,
                full_path=self.request.uri or "",
                now=self.now,
                show=Renderer(),
                **values,
            )
        )

    def respond_error(self, status: int, error: BaseException | None) -> None:
        message = TEXTS("error.failed")
        if isinstance(error, ShownError):
            message = error.message
        elif isinstance(error, GatewayError):
            status, message = error.http_status, str(error)
        elif isinstance(error, StoreUnavailable):
            status, message = 503, TEXTS("error.database")
        elif isinstance(error, StoreError):
            status, message = 504, TEXTS("error.slow")
        elif isinstance(error, HTTPError):
            message = TEXTS(_OF_STATUS.get(status, "error.request"))
        self.set_header("x-gateway-trace", self.trace)
        self.page("error.html", http_status=status, message=message, trace=self.trace, code=status)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, ShownError) or not is_own_failure(value):
            return
        self.services.metrics.http_failure(route=ROUTE)
        if not isinstance(value, GatewayError | StoreError):
            EventLog("gw.console").error(
                "page_failed", trace=self.trace, path=self.request.path, exc_info=True
            )


class ShownError(HTTPError):
    """An error whose text is shown."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status)
        self.message = message


class ConsoleNotFoundHandler(ConsoleHandler):
    """Any other path."""

    def refused_method(self) -> PathRefused:
        return PathRefused(404)


class StaticHandler(ConsoleHandler):
    """Style, script and icon: the same bytes for all users, cached by browsers for good."""

    async def on_get(self, name: str) -> None:
        found = STATIC.get(name)
        if found is None:
            self.refuse(404, "error.not_found")
        self.set_header("Content-Type", found.kind)
        if found.is_compressed:
            self.set_header("Content-Encoding", "gzip")
        await self.finish(found.body)
