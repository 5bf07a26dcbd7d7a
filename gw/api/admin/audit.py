"""The route of the audit trail."""

from __future__ import annotations

from gw.admin import audit
from gw.admin.audit import AuditEntry, AuditQuery
from gw.admin.pagination import Page
from gw.api.admin.table import AdminCall, Route, route


async def list_changes(call: AdminCall) -> Page[AuditEntry]:
    """What was changed, by whom, when and from where, the newest first."""
    return await audit.trail(call.services.database, call.query)


ROUTES: tuple[Route, ...] = (route("GET", "audit", list_changes, query=AuditQuery),)
