"""Routes of asynchronous tasks."""

from __future__ import annotations

from gw.admin import tasks
from gw.admin.pagination import Page
from gw.admin.tasks import Cancelled, TaskQuery, TaskView
from gw.api.admin.table import AdminCall, Route


async def list_tasks(call: AdminCall) -> Page[TaskView]:
    return await tasks.page(call.services.database, call.query)


async def show_task(call: AdminCall) -> TaskView:
    return await tasks.show(call.services.database, call.path["task_id"])


async def cancel_task(call: AdminCall) -> Cancelled:
    services = call.services
    return await tasks.cancel(
        services.database, call.actor, call.path["task_id"], services.make_endings
    )


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="tasks",
        name="list_tasks",
        summary="Asynchronous tasks of all accounts, the newest first.",
        query=TaskQuery,
        response=Page[TaskView],
        read=list_tasks,
    ),
    Route(
        method="GET",
        path="tasks/{task_id}",
        name="show_task",
        summary="One task, its channel and what the upstream calls it.",
        response=TaskView,
        read=show_task,
    ),
    Route(
        method="POST",
        path="tasks/{task_id}/cancel",
        name="cancel_task",
        summary="Cancel an unfinished task: it is refunded, and its upstream asked to stop.",
        response=Cancelled,
        read=cancel_task,
    ),
)
