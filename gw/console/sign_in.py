"""Sign-in and sign-out, and the list of sessions."""

from __future__ import annotations

from gw.admin import audit
from gw.console import sessions
from gw.console.changes import actor_of, change
from gw.console.pages import ConsoleHandler
from gw.console.sessions import SESSION_SECONDS


class SignInHandler(ConsoleHandler):
    """A sign-in link: its page has a button, so that previews of the address do not use it."""

    async def on_get(self, token: str) -> None:
        is_good = await sessions.is_good_link(self.services.database, token)
        self.page("sign_in.html", http_status=200 if is_good else 410, is_good=is_good)

    async def on_head(self, token: str) -> None:
        """Respond to HEAD without using the link."""

    async def on_post(self, token: str) -> None:
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

    async def on_post(self) -> None:
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

    async def on_get(self) -> None:
        found = await sessions.list_open(self.services.database, self.who.account_id)
        self.page("sessions.html", sessions=found)

    async def on_post(self) -> None:
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
