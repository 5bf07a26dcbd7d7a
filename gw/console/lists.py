"""Plain lists of agents, knowledge bases and tasks: of all accounts, or of the owner's."""

from __future__ import annotations

from actors.jobs import store as jobs
from gw import agents
from gw.admin import audit
from gw.agents import UnknownAgent
from gw.console.changes import change, in_force
from gw.console.operations import SQL
from gw.console.pages import ConsoleHandler

PAGE = 100


class AgentsHandler(ConsoleHandler):
    """Agents, and whether each works."""

    async def get(self) -> None:
        start = self.parameters.whole("start", least=0, most=1_000_000) or 0
        found = await agents.list_all(self.services.database, self.who.account_id)
        self.page(
            "agents.html",
            agents=found[start : start + PAGE],
            next_start=start + PAGE if len(found) > start + PAGE else None,
        )

    async def post(self) -> None:
        """Switch an agent on or off."""
        agent_id, is_enabled = self.field("id"), self.field("act") == "enable"
        async with change(self) as (transaction, actor):
            try:
                agent = await agents.show(transaction, agent_id)
            except UnknownAgent:
                self.refuse(404, "error.not_found")
            if self.who.account_id not in (None, agent.account_id):
                self.refuse(404, "error.not_found")
            await agents.change(transaction, agent_id, {"enabled": is_enabled})
            await audit.note(
                transaction,
                actor,
                "agent.set",
                agent_id,
                account_id=agent.account_id,
                details={"enabled": is_enabled},
            )
        await in_force(self)
        self.redirect("/agents", status=303)


class BasesHandler(ConsoleHandler):
    """Knowledge bases with how much is in them."""

    async def get(self) -> None:
        after = self.parameters.whole("after", least=0, most=2**31 - 1) or 0
        params = {"account": self.who.account_id, "after": after, "limit": PAGE + 1}
        rows = await self.services.database.fetch_all(SQL["bases"], params)
        self.page(
            "bases.html", bases=rows[:PAGE], after=rows[PAGE - 1][0] if len(rows) > PAGE else None
        )


class TasksHandler(ConsoleHandler):
    """Films, songs and what else is made later, the newest first."""

    async def get(self) -> None:
        found = await jobs.read_newest(
            self.services.database, account_id=self.who.account_id, limit=PAGE
        )
        self.page("tasks.html", tasks=found)
