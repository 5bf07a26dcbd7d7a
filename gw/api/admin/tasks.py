"""Routes of asynchronous tasks."""

from __future__ import annotations

from gw.admin import tasks
from gw.admin.tasks import TASK, Cancelled, TaskQuery
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route, route


async def cancel_task(call: AdminCall) -> Cancelled:
    """Cancel an unfinished task: it is refunded, and its upstream asked to stop."""
    services = call.services
    return await tasks.cancel(
        services.database, call.actor, call.path["task_id"], services.make_endings
    )


_OF = NounRoutes(TASK, "tasks")
ROUTES: tuple[Route, ...] = (
    _OF.list("Asynchronous tasks of all accounts, the newest first.", tasks.page, TaskQuery),
    _OF.show("One task, its channel and what the upstream calls it.", tasks.show),
    route("POST", "tasks/{task_id}/cancel", cancel_task),
)
