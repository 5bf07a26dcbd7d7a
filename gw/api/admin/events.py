"""The route of events."""

from __future__ import annotations

from gw.admin import events as admin
from gw.admin.events import EventPage, EventQuery
from gw.api.admin.table import AdminCall, Route, route
from gw.api.logs.rows import Rendering


async def list_events(call: AdminCall) -> EventPage:
    """What has happened, the oldest first, from a cursor on; there is always a next one."""
    current = call.services.current
    rendering = Rendering(credits_per_usd=current.config.credits_per_usd, redact=current.redact)
    return await admin.page(
        call.services.database,
        call.query,
        keep_days=current.config.events.keep_days,
        show_call=rendering.settled,
    )


ROUTES: tuple[Route, ...] = (route("GET", "events", list_events, query=EventQuery, refuses=(410,)),)
