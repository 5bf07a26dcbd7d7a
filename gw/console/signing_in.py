"""The way in and out: the page of a link, the session it opens, who is in and what they did."""

from __future__ import annotations

from gw.admin import audit, tokens, values
from gw.admin.audit import AuditQuery
from gw.admin.refusals import Invalid
from gw.admin.tokens import SCOPES
from gw.console import sessions
from gw.console.changes import actor_of, change
from gw.console.pages import ConsoleHandler
from gw.console.sessions import SESSION_SECONDS

TOKENS_PAGE = 100


class SignInHandler(ConsoleHandler):
    """A link: its page has a button, so that whatever only looks at the address spends nothing."""

    needs_session = False

    async def get(self, token: str) -> None:
        is_good = await sessions.is_good_link(self.services.database, token)
        self.page("sign_in.html", http_status=200 if is_good else 410, is_good=is_good)

    async def head(self, token: str) -> None:
        """As good as a look: nothing."""

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
        # Lax, so that a link to a call in a message of a colleague opens; forms carry a token.
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
    """The end of one's own session."""

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
    """Who is signed in: everyone's for operators, an account's for its owner."""

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
    """Who changed what: everything for operators, an account's for its owner."""

    async def get(self) -> None:
        query = AuditQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        try:
            page = await audit.trail(self.services.database, query)
        except Invalid:
            self.refuse(400, "error.request")
        self.page("audit.html", entries=page.data, cursor=page.next_cursor)


class TokensHandler(ConsoleHandler):
    """Tokens of the admin API, the newest first: made, shown once, revoked."""

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
        """The page; a new token's text is in the response to a form alone."""
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        found = (await tokens.list_all(self.services.database))[::-1]
        self.page(
            "tokens.html",
            tokens=found[start : start + TOKENS_PAGE],
            next_start=start + TOKENS_PAGE if len(found) > start + TOKENS_PAGE else None,
            text=text,
            scopes=SCOPES,
        )
