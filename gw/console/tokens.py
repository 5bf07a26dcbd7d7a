"""Tokens of the admin API as a page."""

from __future__ import annotations

from gw.admin import tokens
from gw.admin.tokens import TOKEN
from gw.console.changes import change
from gw.console.pages import ConsoleHandler

TOKENS_PAGE = 100


class TokensHandler(ConsoleHandler):
    """Tokens of the admin API, newest first: created, shown once, revoked."""

    async def on_get(self) -> None:
        await self._show(None)

    async def on_post(self) -> None:
        act = self.field("act")
        if act == "revoke":
            async with change(self) as (transaction, actor):
                await tokens.revoke(transaction, actor, self.field("id"))
            self.redirect("/tokens", status=303)
            return
        if act != "create":
            self.refuse(400, "error.request")
        async with change(self) as (transaction, actor):
            new = TOKEN.new_of_form(self, self.services.current.registry)
            _, text = await tokens.create(transaction, actor, new)
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
            form=TOKEN.new_form,
        )
