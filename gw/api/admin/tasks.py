"""Routes of asynchronous tasks."""

from __future__ import annotations

from gw.admin import tasks
from gw.admin.pagination import Page
from gw.admin.tasks import Cancelled, TaskQuery, TaskView
from gw.api.admin.table import AdminCall, Route, route


async def list_tasks(call: AdminCall) -> Page[TaskView]:
    """Asynchronous tasks of all accounts, the newest first."""
    return await tasks.page(call.services.database, call.query)


async def show_task(call: AdminCall) -> TaskView:
    """One task, its channel and what the upstream calls it."""
    return await tasks.show(call.services.database, call.path["task_id"])


async def cancel_task(call: AdminCall) -> Cancelled:
    """Cancel an unfinished task: it is refunded, and its upstream asked to stop."""
    services = call.services
    return await tasks.cancel(
        services.database, call.actor, call.path["task_id"], services.make_endings
    )


ROUTES: tuple[Route, ...] = (
    route("GET", "tasks", list_tasks, query=TaskQuery),
    route("GET", "tasks/{task_id}", show_task),
    route("POST", "tasks/{task_id}/cancel", cancel_task),
)
