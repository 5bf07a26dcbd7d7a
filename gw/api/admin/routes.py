"""Every route of the admin API."""

from __future__ import annotations

from gw.api.admin import accounts, agents, channels
from gw.api.admin.table import Route

ROUTES: tuple[Route, ...] = (*accounts.ROUTES, *agents.ROUTES, *channels.ROUTES)
