"""Routes of webhooks."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from actors.store.session import Session
from actors.webhooks.settings import Settings
from gw.admin import webhooks
from gw.admin.pagination import Page
from gw.admin.webhooks import DeliveryQuery, Replay, Replayed, Rotate, WebhookWithSecret
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route, route
from gw.keys.sealing import KeySealer
from gw.webhooks import table
from gw.webhooks.settings import settings_of
from gw.webhooks.table import Delivery
from gw.webhooks.webhook import WEBHOOK


class WebhookId(Struct, frozen=True):
    """The id of a webhook: what is kept of a response that has its secret."""

    id: str


async def create_webhook(call: AdminCall, session: Session) -> WebhookId:
    """Have events sent to an address. Its secret is in this response; a replay is recorded."""
    new = WEBHOOK.new_of(call.body, call.registry)
    made, _ = await webhooks.create(
        session, call.actor, new, settings=_settings(call), sealer=_sealer(call)
    )
    return WebhookId(made.id)


async def set_webhook(call: AdminCall, session: Session) -> WEBHOOK.View:  # type: ignore[name-defined]
    """Set what a webhook is sent and where to, and whether it works."""
    changes = WEBHOOK.changes_of(call.body, call.registry)
    changed = await webhooks.change(
        session, call.actor, _id(call), changes, settings=_settings(call)
    )
    return WEBHOOK.view(changed)


async def delete_webhook(call: AdminCall, session: Session) -> WEBHOOK.View:  # type: ignore[name-defined]
    """Delete a webhook; what is pending is not sent."""
    return WEBHOOK.view(await webhooks.delete(session, call.actor, _id(call)))


async def rotate_webhook(call: AdminCall, session: Session) -> WebhookId:
    """Replace the secret; the one before signs too for a while."""
    hours, sealer = call.body.keep_hours, _sealer(call)
    webhook, _ = await webhooks.rotate(session, call.actor, _id(call), hours, sealer=sealer)
    return WebhookId(webhook.id)


async def show_secret(
    call: AdminCall, session: Session, kept: bytes, is_replayed: bool
) -> WebhookWithSecret:
    """Return a webhook with its secret; when it is shown again, that is recorded."""
    webhook_id = msgspec.json.decode(kept, type=WebhookId).id
    return await webhooks.show_secret(
        session, call.actor, webhook_id, sealer=_sealer(call), is_replayed=is_replayed
    )


async def test_webhook(call: AdminCall) -> Delivery:
    """Send an event webhook.test now, once."""
    services = call.services
    return await webhooks.test(
        services.database,
        call.actor,
        _id(call),
        settings=_settings(call),
        sealer=_sealer(call),
        clock=services.clock,
    )


async def replay_webhook(call: AdminCall, session: Session) -> Replayed:
    """Deliver again: an event, those of a span of time, or all dead ones."""
    return await webhooks.replay(
        session, call.actor, _id(call), call.body, settings=_settings(call)
    )


async def list_deliveries(call: AdminCall) -> Page[Delivery]:
    """Deliveries of a webhook, the newest events first."""
    return await webhooks.deliveries(call.services.database, _id(call), call.query)


def _id(call: AdminCall) -> str:
    return call.path["webhook_id"]


def _settings(call: AdminCall) -> Settings:
    return settings_of(call.services.current.config)


def _sealer(call: AdminCall) -> KeySealer:
    return KeySealer(call.services.secret)


_ONE = "webhooks/{webhook_id}"
_OF = NounRoutes(WEBHOOK, "webhooks")
ROUTES: tuple[Route, ...] = (
    _OF.list("Webhooks, of an account or of all, the newest first.", webhooks.page),
    route("POST", "webhooks", create_webhook, body=WEBHOOK.New, status=201, finish=show_secret),
    _OF.show("One webhook, without its secret.", table.show),
    route("PATCH", _ONE, set_webhook, body=WEBHOOK.Settings, in_force=True),
    route("DELETE", _ONE, delete_webhook, in_force=True),
    route("POST", f"{_ONE}/rotate", rotate_webhook, body=Rotate, finish=show_secret, in_force=True),
    route("POST", f"{_ONE}/test", test_webhook),
    route("POST", f"{_ONE}/replay", replay_webhook, body=Replay),
    route("GET", f"{_ONE}/deliveries", list_deliveries, query=DeliveryQuery),
)
