"""Webhooks and their deliveries as operators see them; the SQL is `webhooks.sql`.

What sends to them is `actors/webhooks/`; it is notified of changes by the database.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct

from actors.events import outbox
from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount
from gw.keys.sealing import KeySealer, WrongSecret
from gw.nouns.noun import Changes
from gw.nouns.values import Instant
from gw.webhooks.webhook import WEBHOOK, WEBHOOKS_MAX, NewWebhook, WebhookRecord

SQL = load("gw.webhooks", "webhooks.sql", WEBHOOK.sql)
ACCOUNT_MISSING = "webhooks_of_account"

DeliveryStatus = Literal["pending", "delivered", "dead"]
STATUSES: tuple[DeliveryStatus, ...] = get_args(DeliveryStatus)


class UnknownWebhook(Exception):
    """No webhook has this id."""


class TooManyWebhooks(Exception):
    """There are as many as there may be."""


class QueueFull(Exception):
    """More deliveries would be pending than may be."""


class Delivery(Struct, frozen=True):
    """One event for one webhook. `last_outcome`: a status, timeout, unreachable, refused_address.

    `next_attempt_at` null: as soon as its turn comes, or never. `sequence` null: a test.
    """

    event_id: str
    sequence: int | None
    type: str
    status: DeliveryStatus
    attempts: int
    last_attempt_at: Instant | None
    last_outcome: str | None
    next_attempt_at: Instant | None


async def create(session: Session, webhook: NewWebhook, *, secret: str, sealer: KeySealer) -> str:
    """Store a new webhook, of the events from now on; return its id.

    Raises UnknownAccount, TooManyWebhooks.
    """
    await session.fetch_one(SQL["lock"])
    await outbox.number(session)
    row = await session.fetch_one(SQL["count"])
    assert row is not None
    if row[0] >= WEBHOOKS_MAX:
        raise TooManyWebhooks(WEBHOOKS_MAX)
    webhook_id = f"whk_{secrets.token_hex(10)}"
    sealed = sealer.seal(secret, key_id=webhook_id)
    params = {"id": webhook_id, "sealed_secret": sealed, **WEBHOOK.row_of(webhook)}
    try:
        await session.execute(SQL["insert"], params)
    except ConstraintViolated as error:
        if error.constraint_name == ACCOUNT_MISSING:
            raise UnknownAccount(webhook.account_id) from error
        raise
    return webhook_id


async def show(store: Statements, webhook_id: str) -> WebhookRecord:
    """Return one webhook. Raises UnknownWebhook."""
    row = await store.fetch_one(SQL["show"], (webhook_id,))
    if row is None:
        raise UnknownWebhook(webhook_id)
    return WEBHOOK.of_row(row)


async def change(store: Statements, webhook_id: str, changes: Changes) -> None:
    """Set the fields named by `changes`. Raises UnknownWebhook."""
    params = {"id": webhook_id, **WEBHOOK.settings_of(changes)}
    if not await store.execute(SQL["change"], params):
        raise UnknownWebhook(webhook_id)


async def delete(store: Statements, webhook_id: str) -> None:
    """Delete a webhook. Raises UnknownWebhook."""
    if not await store.execute(SQL["delete"], (webhook_id,)):
        raise UnknownWebhook(webhook_id)


async def read_secrets(
    store: Statements, webhook_id: str, sealer: KeySealer
) -> tuple[str, list[str]]:
    """Return the URL of a webhook and the secrets that sign, the newest first.

    Raises UnknownWebhook, WrongSecret.
    """
    row = await store.fetch_one(SQL["secrets"], (webhook_id,))
    if row is None:
        raise UnknownWebhook(webhook_id)
    url, *sealed = row
    return url, [sealer.unseal(bytes(one), key_id=webhook_id) for one in sealed if one is not None]


async def rotate(
    store: Statements, webhook_id: str, *, secret: str, keep_hours: int, sealer: KeySealer
) -> None:
    """Replace the secret; the one before signs too for `keep_hours`. Raises UnknownWebhook."""
    sealed = sealer.seal(secret, key_id=webhook_id)
    params = {"id": webhook_id, "sealed_secret": sealed, "hours": keep_hours}
    if not await store.execute(SQL["rotate"], params):
        raise UnknownWebhook(webhook_id)


async def reseal(store: Statements, sealer: KeySealer) -> tuple[int, int]:
    """Seal secrets of the previous secret anew; return how many webhooks were, and were before.

    Raises WrongSecret if neither secret opens one.
    """
    resealed = current = 0
    for webhook_id, *stored in await store.fetch_all(SQL["sealed"]):
        sealed = [None if one is None else bytes(one) for one in stored]
        opened = [
            None if one is None else sealer.unseal_dated(one, key_id=webhook_id) for one in sealed
        ]
        if all(one is None or one[1] for one in opened):
            current += 1
            continue
        anew = [None if one is None else sealer.seal(one[0], key_id=webhook_id) for one in opened]
        params = {"id": webhook_id, "secret": anew[0], "previous": anew[1], "was": sealed[0]}
        resealed += await store.execute(SQL["reseal"], params)
    return resealed, current


def unsealing(sealer: KeySealer, webhook_id: str, sealed: bytes) -> str | None:
    """Return a secret for the deliverer; None if neither secret of the gateway opens it."""
    try:
        return sealer.unseal(sealed, key_id=webhook_id)
    except WrongSecret:
        return None


async def list_deliveries(
    store: Statements,
    webhook_id: str,
    *,
    status: DeliveryStatus | None,
    before: int | None,
    limit: int,
) -> Sequence[Delivery]:
    """Return deliveries of a webhook, the newest events first, before a number."""
    rows = await store.fetch_all(
        SQL["deliveries"],
        {"webhook": webhook_id, "status": status, "before": before, "limit": limit},
    )
    return [Delivery(*row) for row in rows]


async def replay(
    store: Statements,
    webhook_id: str,
    *,
    event: str | None,
    since: datetime | None,
    until: datetime | None,
    queue: int,
) -> int:
    """Make deliveries pending again: of one event, of a span, or, if all are None, dead ones.

    Returns how many. Raises UnknownWebhook; QueueFull if that would be more than `queue`.
    """
    params = {"webhook": webhook_id, "event": event, "from": since, "to": until, "queue": queue}
    row = await store.fetch_one(SQL["replay"], params)
    assert row is not None
    if row[0] is None:
        raise UnknownWebhook(webhook_id)
    if row[0] < 0:
        raise QueueFull(queue)
    return int(row[0])


async def is_pending(store: Statements, webhook_id: str, event_id: str) -> bool:
    """Whether the delivery of an event is pending."""
    row = await store.fetch_one(SQL["is_pending"], (webhook_id, event_id))
    return row is not None and bool(row[0])
