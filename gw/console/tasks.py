"""Tasks as a page, of all accounts or of the owner's."""

from __future__ import annotations

from gw.admin import tasks
from gw.admin.tasks import TaskQuery
from gw.console.changes import actor_of, in_words
from gw.console.pages import ConsoleHandler
from gw.media_services import endings_of


class TasksHandler(ConsoleHandler):
    """Tasks, the newest first."""

    async def on_get(self) -> None:
        query = TaskQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        with in_words():
            page = await tasks.page(self.services.database, query)
        self.page("tasks.html", tasks=page.data, cursor=page.next_cursor)

    async def on_post(self) -> None:
        """Cancel a task; its account gets the whole hold back, so only operators may."""
        services = self.services
        endings = endings_of(
            services.current,
            database=services.database,
            http=services.http,
            secret=services.secret,
            clock=services.clock,
            metrics=services.metrics,
        )
        with in_words():
            actor = actor_of(self.who)
            await tasks.cancel(services.database, actor, self.field("id"), endings)
        self.redirect("/tasks", status=303)
