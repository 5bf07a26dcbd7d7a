"""The route of the audit trail."""

from __future__ import annotations

from gw.admin import audit
from gw.admin.audit import AuditEntry, AuditQuery
from gw.admin.pagination import Page
from gw.api.admin.table import AdminCall, Route


async def list_changes(call: AdminCall) -> Page[AuditEntry]:
    return await audit.trail(call.services.database, call.query)


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="audit",
        name="list_changes",
        summary="What was changed, by whom, when and from where, the newest first.",
        query=AuditQuery,
        response=Page[AuditEntry],
        read=list_changes,
    ),
)
