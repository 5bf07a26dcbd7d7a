"""How a page changes something: in one transaction with its row of the audit trail."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from actors.changes import heard_by_all
from actors.store.database import Session as Transaction
from gw.admin import refusals
from gw.admin.audit import Actor
from gw.console.pages import ConsoleHandler, Refusal
from gw.console.sessions import Session


def actor_of(session: Session) -> Actor:
    """Who makes a change, as the audit trail has it."""
    return Actor(session.role, f"{session.name} ({session.id})", session.origin)


@asynccontextmanager
async def change(handler: ConsoleHandler) -> AsyncIterator[tuple[Transaction, Actor]]:
    """A transaction and who acts in it."""
    with in_words():
        async with handler.services.database.transaction() as transaction:
            yield transaction, actor_of(handler.who)


@contextmanager
def in_words() -> Iterator[None]:
    """What a use-case refuses becomes a page with its words."""
    try:
        yield
    except Exception as error:
        refusal = refusals.explain(error)
        if refusal is None or refusal.http_status >= 500:
            raise
        text = refusal.message[:1].upper() + refusal.message[1:] + "."
        raise Refusal(refusal.http_status, text) from error


async def in_force(handler: ConsoleHandler) -> None:
    """Return when what has been changed holds in every running gateway (contract §1)."""
    await heard_by_all(handler.services.database, token=secrets.token_hex(8))
