"""Every route of the admin API, and the API made of them."""

from __future__ import annotations

from functools import partial

from actors.limits.accounts import Limiter
from gw.api.admin import accounts, agents, channels
from gw.api.admin.description import description
from gw.api.admin.server import AdminApi
from gw.api.admin.table import AdminServices, Route

ROUTES: tuple[Route, ...] = (
    *accounts.ROUTES,
    *agents.ROUTES,
    *channels.ROUTES,
)


def make_admin_api(services: AdminServices, limiter: Limiter) -> AdminApi:
    """Make the API of one process."""
    return AdminApi(ROUTES, services, limiter=limiter, description=partial(description, ROUTES))
