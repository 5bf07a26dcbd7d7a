"""An operator's functions of webhooks: made, changed, tested, replayed; each change is audited.

The table is `gw/webhooks/table.py`; `actors/webhooks/` sends to them.
"""

from __future__ import annotations

import secrets as random_ids
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta, Struct, field, structs

from actors.clock import Clock
from actors.events.outbox import Event
from actors.store.database import Database
from actors.store.session import Session, Statements
from actors.wallet.storable import encode_json
from actors.webhooks.sender import Letter, Sender
from actors.webhooks.settings import Settings
from actors.webhooks.signature import new_secret
from gw import accounts
from gw.admin import audit, pagination
from gw.admin.audit import Actor
from gw.admin.events import ShowCall, view
from gw.keys.sealing import KeySealer
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import Id, Instant
from gw.webhooks import table
from gw.webhooks.table import Delivery, DeliveryStatus
from gw.webhooks.webhook import WEBHOOK, NewWebhook, WebhookRecord

KEEP_HOURS_DEFAULT, KEEP_HOURS_MAX = 24, 720
TEST = "webhook.test"


class WebhookWithSecret(WEBHOOK.View):  # type: ignore[name-defined, misc]
    """A webhook with its secret, returned only by its creation and by a rotation."""

    secret: str


class Rotate(Struct, forbid_unknown_fields=True):
    """How long the secret that is replaced signs too, beside the new one; 0: no longer."""

    keep_hours: Annotated[int, Meta(ge=0, le=KEEP_HOURS_MAX)] = KEEP_HOURS_DEFAULT


class Replay(Struct, forbid_unknown_fields=True):
    """What to deliver again: one event, those of a span of time, or all dead ones."""

    event: Id | None = None
    since: Instant | None = field(default=None, name="from")
    until: Instant | None = field(default=None, name="to")
    dead: bool = False


class Replayed(Struct, frozen=True):
    """How many deliveries are pending by it."""

    replayed: int


class DeliveryQuery(pagination.PageQuery, frozen=True):
    """The query of a list of deliveries."""

    status: DeliveryStatus | None = None


def with_secret(webhook: WebhookRecord, secret: str) -> WebhookWithSecret:
    """Return a webhook with its secret."""
    return WebhookWithSecret(**structs.asdict(WEBHOOK.view(webhook)), secret=secret)


def body_of(event: Event, show_call: ShowCall) -> bytes:
    """Return the bytes of an event that are sent and signed: as it is pulled."""
    return encode_json(view(event, show_call))


def _body_of_test(event_id: str, at: datetime, webhook: WebhookRecord) -> bytes:
    """Return those of a test, which has no number."""
    shown = {"id": event_id, "sequence": None, "type": TEST, "timestamp": at}
    return encode_json({**shown, "account_id": webhook.account_id, "data": {}})


async def page(
    database: Statements, query: pagination.AccountQuery
) -> pagination.Page[WebhookRecord]:
    """Return a page of webhooks, the newest first. Raises UnknownAccount, Invalid."""
    return await pagination.newest(database, table.SQL["newest_first"], WEBHOOK, query)


async def create(
    session: Session, actor: Actor, new: NewWebhook, *, settings: Settings, sealer: KeySealer
) -> tuple[WebhookRecord, str]:
    """Create a webhook; its secret is returned only here and by a rotation.

    Raises UnknownAccount, TooManyWebhooks, Invalid.
    """
    await _check_url(new.url, settings)
    if new.account_id is not None:
        await accounts.show(session, new.account_id)
    secret = new_secret()
    webhook_id = await table.create(session, new, secret=secret, sealer=sealer)
    made = await table.show(session, webhook_id)
    await _note(session, actor, "webhook.create", made, **WEBHOOK.noted_new(made))
    return made, secret


async def change(
    session: Session, actor: Actor, webhook_id: str, changes: Changes, *, settings: Settings
) -> WebhookRecord:
    """Set the members named by `changes`. Raises UnknownWebhook, Invalid."""
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    if "url" in changes:
        await _check_url(changes["url"], settings)
    await table.change(session, webhook_id, changes)
    changed = await table.show(session, webhook_id)
    await _note(session, actor, "webhook.set", changed, **WEBHOOK.noted(changes))
    return changed


async def delete(session: Session, actor: Actor, webhook_id: str) -> WebhookRecord:
    """Delete a webhook, with what is pending; return it as it was. Raises UnknownWebhook."""
    deleted = await table.show(session, webhook_id)
    await table.delete(session, webhook_id)
    await _note(session, actor, "webhook.delete", deleted, url=deleted.url)
    return deleted


async def rotate(
    session: Session, actor: Actor, webhook_id: str, keep_hours: int, *, sealer: KeySealer
) -> tuple[WebhookRecord, str]:
    """Replace the secret; the one before signs too for a while. Raises UnknownWebhook, Invalid."""
    if not 0 <= keep_hours <= KEEP_HOURS_MAX:
        raise Invalid(f"a secret is kept for 0 to {KEEP_HOURS_MAX} hours")
    secret = new_secret()
    await table.rotate(session, webhook_id, secret=secret, keep_hours=keep_hours, sealer=sealer)
    webhook = await table.show(session, webhook_id)
    await _note(session, actor, "webhook.rotate", webhook, keep_hours=keep_hours)
    return webhook, secret


async def show_secret(
    session: Session, actor: Actor, webhook_id: str, *, sealer: KeySealer, is_replayed: bool
) -> WebhookWithSecret:
    """Return a webhook with the secret that was just made; showing it again is recorded.

    Raises UnknownWebhook, WrongSecret.
    """
    webhook = await table.show(session, webhook_id)
    _, secrets = await table.read_secrets(session, webhook_id, sealer)
    if is_replayed:
        await _note(session, actor, "webhook.reveal", webhook)
    return with_secret(webhook, secrets[0])


def check_replay(wish: Replay) -> None:
    """Raise Invalid unless it is one thing that is to be delivered again."""
    is_span = wish.since is not None or wish.until is not None
    if [wish.event is not None, is_span, wish.dead].count(True) != 1:
        raise Invalid("name one of them: an event, from and to, or dead")
    if is_span and (wish.since is None or wish.until is None or wish.since >= wish.until):
        raise Invalid("from and to go together, and from is the earlier one")


async def replay(
    session: Session, actor: Actor, webhook_id: str, wish: Replay, *, settings: Settings
) -> Replayed:
    """Make deliveries pending again. Raises UnknownWebhook, QueueFull, Invalid, Refused."""
    check_replay(wish)
    webhook = await table.show(session, webhook_id)
    count = await table.replay(
        session,
        webhook_id,
        event=wish.event,
        since=wish.since,
        until=wish.until,
        queue=settings.queue,
    )
    if (
        count == 0
        and wish.event is not None
        and not await table.is_pending(session, webhook_id, wish.event)
    ):
        raise Refused(
            f"there is no event {wish.event} for this webhook", "event_not_found", http_status=404
        )
    details = {
        "event": wish.event,
        "from": wish.since,
        "to": wish.until,
        "dead": wish.dead,
        "replayed": count,
    }
    given = {name: value for name, value in details.items() if value not in (None, False)}
    await _note(session, actor, "webhook.replay", webhook, **given)
    return Replayed(count)


async def deliveries(
    database: Statements, webhook_id: str, query: DeliveryQuery
) -> pagination.Page[Delivery]:
    """Return a page of deliveries, the newest events first. Raises UnknownWebhook, Invalid."""
    before = query.position(int)
    await table.show(database, webhook_id)
    found = await table.list_deliveries(
        database, webhook_id, status=query.status, before=before, limit=query.limit + 1
    )
    return pagination.page_of(found, query.limit, lambda one: one.sequence)


async def test(
    database: Database,
    actor: Actor,
    webhook_id: str,
    *,
    settings: Settings,
    sealer: KeySealer,
    clock: Clock,
) -> Delivery:
    """Send an event `webhook.test`, once, and return how that ended; it is in no outbox.

    Raises UnknownWebhook, WrongSecret.
    """
    webhook = await table.show(database, webhook_id)
    url, secrets = await table.read_secrets(database, webhook_id, sealer)
    event_id = f"evt_{random_ids.token_hex(16)}"
    at = datetime.fromtimestamp(clock.now(), UTC)
    sender = Sender(url, secrets, targets=settings.targets, seconds=settings.seconds, clock=clock)
    try:
        outcome = await sender.send(Letter(event_id, _body_of_test(event_id, at, webhook)))
    finally:
        await sender.close()
    async with database.transaction() as session:
        await _note(session, actor, "webhook.test", webhook, outcome=outcome.text)
    return Delivery(
        event_id=event_id,
        sequence=None,
        type=TEST,
        status="delivered" if outcome.is_delivered else "dead",
        attempts=1,
        last_attempt_at=at,
        last_outcome=outcome.text,
        next_attempt_at=None,
    )


async def _check_url(url: str, settings: Settings) -> None:
    fault = settings.targets.fault_of(url)
    if fault is None and await settings.targets.leads_elsewhere(url):
        fault = "must begin with https://"
    if fault is not None:
        raise Invalid(f"url: it {fault}")


async def _note(
    session: Session, actor: Actor, action: str, webhook: WebhookRecord, **details: object
) -> None:
    await audit.note(
        session, actor, action, webhook.id, account_id=webhook.account_id, details=details
    )
