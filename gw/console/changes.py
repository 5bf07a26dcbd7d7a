"""Changes by a page: one transaction with the row of the audit trail."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from actors.changes import heard_by_all
from actors.store.session import Session as Transaction
from gw.admin import refusals
from gw.admin.audit import Actor
from gw.console.pages import ConsoleHandler, ShownError
from gw.console.sessions import Session


def actor_of(session: Session) -> Actor:
    """Return the actor of a change, for the audit trail.

    The name of an owner's session is the operator's who made its link: it is not the owner's.
    """
    name = session.name if session.is_operator else session.account_name
    return Actor(session.role, f"{name} ({session.id})", session.origin)


@asynccontextmanager
async def change(
    handler: ConsoleHandler, *, is_booked: bool = True
) -> AsyncIterator[tuple[Transaction, Actor]]:
    """Open a transaction with its actor; a form is booked in it, and refused if it was before."""
    with in_words():
        async with handler.services.database.transaction() as transaction:
            if is_booked:
                await handler.book(transaction)
            yield transaction, actor_of(handler.who)


@contextmanager
def in_words() -> Iterator[None]:
    """Convert a use-case's refusal to an error page."""
    try:
        yield
    except Exception as error:
        refusal = refusals.refusal_of(error)
        if refusal is None or refusal.http_status >= 500:
            raise
        text = refusal.message[:1].upper() + refusal.message[1:] + "."
        raise ShownError(refusal.http_status, text) from error


async def in_force(handler: ConsoleHandler) -> None:
    """Return when committed changes apply in every running gateway."""
    await heard_by_all(handler.services.database, token=secrets.token_hex(8))
