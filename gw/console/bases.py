"""Knowledge bases as a page, of all accounts or of the owner's."""

from __future__ import annotations

from actors.store.queries import load
from gw.console.pages import ConsoleHandler

SQL = load("gw.console", "bases.sql")
PAGE = 100


class ConsoleBasesHandler(ConsoleHandler):
    """Knowledge bases with their numbers of pages."""

    async def on_get(self) -> None:
        after = self.parameters.whole("after", least=0, most=2**31 - 1) or 0
        params = {"account": self.who.account_id, "after": after, "limit": PAGE + 1}
        rows = await self.services.database.fetch_all(SQL["bases"], params)
        self.page(
            "bases.html", bases=rows[:PAGE], after=rows[PAGE - 1][0] if len(rows) > PAGE else None
        )
