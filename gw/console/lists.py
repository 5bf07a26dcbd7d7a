"""Plain lists of agents, knowledge bases and tasks: of all accounts, or of the owner's."""

from __future__ import annotations

from gw import agents
from gw.admin import agents as handled
from gw.admin import tasks
from gw.admin.agents import AgentQuery
from gw.admin.tasks import TaskQuery
from gw.agents import UnknownAgent
from gw.console.changes import actor_of, change, in_force, in_words
from gw.console.operations import SQL
from gw.console.pages import ConsoleHandler
from gw.media_services import endings_of

PAGE = 100


class AgentsHandler(ConsoleHandler):
    """Agents, and whether each works."""

    async def get(self) -> None:
        query = AgentQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await handled.page(
                self.services.database, query, self.services.current.config.agents.default_model
            )
        self.page("agents.html", agents=page.data, cursor=page.next_cursor)

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
            await handled.change(transaction, actor, agent_id, {"enabled": is_enabled})
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
        query = TaskQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await tasks.page(self.services.database, query)
        self.page("tasks.html", tasks=page.data, cursor=page.next_cursor)

    async def post(self) -> None:
        """Cancel a task: its account gets the whole hold back, so operators alone do it."""
        if not self.who.is_operator:
            self.refuse(404, "error.not_found")
        services = self.services
        endings = endings_of(
            services.current,
            database=services.database,
            wire=services.wire,
            secret=services.secret,
            clock=services.clock,
            metrics=services.metrics,
        )
        with in_words():
            actor = actor_of(self.who)
            await tasks.cancel(services.database, actor, self.field("id"), endings)
        self.redirect("/tasks", status=303)
