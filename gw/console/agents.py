"""Agents as a page, of all accounts or of the owner's."""

from __future__ import annotations

from gw.admin import agents as handled
from gw.admin.pagination import AccountQuery
from gw.agents import table
from gw.agents.table import UnknownAgent
from gw.console.changes import change, in_force, in_words
from gw.console.pages import ConsoleHandler


class AgentsHandler(ConsoleHandler):
    """Agents, and whether each can be called."""

    async def on_get(self) -> None:
        query = AccountQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await handled.page(self.services.database, query)
        default = self.services.current.config.agents.default_model
        self.page(
            "agents.html", agents=[one.on(default) for one in page.data], cursor=page.next_cursor
        )

    async def on_post(self) -> None:
        """Enable or disable an agent."""
        agent_id, is_enabled = self.field("id"), self.field("act") == "enable"
        async with change(self) as (transaction, actor):
            try:
                agent = await table.show(transaction, agent_id)
            except UnknownAgent:
                self.refuse(404, "error.not_found")
            if self.who.account_id not in (None, agent.account_id):
                self.refuse(404, "error.not_found")
            await handled.change(transaction, actor, agent_id, {"enabled": is_enabled})
        await in_force(self)
        self.redirect("/agents", status=303)
