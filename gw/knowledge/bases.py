"""The bases readable by a user, and an operator's functions: find, grant, remove."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from actors.store.database import Database
from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount
from gw.nouns import kinds
from gw.nouns.member import Member
from gw.nouns.noun import NothingGiven, Noun

SQL = load("gw.knowledge", "knowledge.sql")
PERSONAL = "default"
GRANTEE_MISSING = "kb_grants_to_account"


@dataclass(frozen=True, slots=True)
class Base:
    """A base as one user sees it; `no` is 0 for a personal base without imports."""

    no: int
    kb_id: str
    name: str
    pages: int


@dataclass(frozen=True, slots=True)
class BaseRecord:
    """A base as shown. `user`: the owner of a personal base, null for a named one."""

    no: int
    kb_id: Annotated[str, Member(kinds.TEXT)]
    user: Annotated[str | None, Member(kinds.TEXT)]
    name: Annotated[str, Member(kinds.TEXT)]
    pages: Annotated[int, Member(kinds.COUNT)]
    is_restricted: Annotated[bool, Member(kinds.FLAG, name="restricted")]
    updated_at: Annotated[datetime | None, Member(kinds.INSTANT)]
    sources: Annotated[int, Member(kinds.COUNT, before="is_restricted")] = 0
    granted_to_users: Sequence[str] = ()
    granted_to_accounts: Sequence[str] = ()

    @property
    def granted_to(self) -> Annotated[list[str], Member(kinds.TEXTS, before="updated_at")]:
        """The users and accounts it is granted to, in words."""
        return [
            *(f"user {name}" for name in self.granted_to_users),
            *(f"account {name}" for name in self.granted_to_accounts),
        ]


BASE: Noun[NothingGiven, BaseRecord] = Noun("Base", NothingGiven, BaseRecord, alias="b")


class UnknownBase(Exception):
    """An account has no such base."""


@asynccontextmanager
async def one_state(database: Database) -> AsyncIterator[Session]:
    """Open one snapshot of all bases for the statements of a request."""
    async with database.transaction() as session:
        await session.execute(SQL["begin_reading"])
        yield session


async def readable_bases(store: Statements, *, account_id: str, user: str) -> list[Base]:
    """Return every base readable by the user: the personal one, the account's, the granted ones."""
    params = {"account": account_id, "user": user, "kb": None}
    found = [Base(*row) for row in await store.fetch_all(SQL["readable"], params)]
    if not found or found[0].kb_id != PERSONAL:
        found.insert(0, _nothing_yet())
    return found


async def readable_base(
    store: Statements, kb_id: str, *, account_id: str, user: str
) -> Base | None:
    """Return the base of an id; None if it is missing or not readable by this user."""
    params = {"account": account_id, "user": user, "kb": kb_id}
    row = await store.fetch_one(SQL["readable"], params)
    if row is None:
        return _nothing_yet() if kb_id == PERSONAL else None
    return Base(*row)


async def find_base(store: Statements, account_id: str, kb_id: str, user: str | None) -> BaseRecord:
    """Return a base of an account. Raises UnknownBase; a personal one always exists."""
    params = {"account": account_id, "kb": kb_id, "user": user}
    row = await store.fetch_one(SQL["find_base"], params)
    if row is None:
        if user is None:
            raise UnknownBase(kb_id)
        return BaseRecord(0, kb_id, user, kb_id, 0, False, None)
    return (await _detailed(store, [row]))[0]


async def list_bases(store: Statements, account_id: str) -> list[BaseRecord]:
    """Return every imported base of an account."""
    return await _detailed(store, await store.fetch_all(SQL["list_bases"], (account_id,)))


async def unresolved_links(store: Statements, base: BaseRecord) -> list[tuple[str, str]]:
    """Return page and target of each unresolved link."""
    return [(row[0], row[1]) for row in await store.fetch_all(SQL["unresolved"], (base.no,))]


async def grant(
    store: Statements, base: BaseRecord, *, user: str | None, account: str | None
) -> None:
    """Grant a base to a user of its account, or to all users of another account.

    Raises UnknownAccount.
    """
    params = {"base": base.no, "user": user, "account": account}
    try:
        await store.execute(SQL["grant"], params)
    except ConstraintViolated as error:
        if error.constraint_name == GRANTEE_MISSING:
            raise UnknownAccount(account) from error
        raise


async def revoke(
    store: Statements, base: BaseRecord, *, user: str | None, account: str | None
) -> bool:
    """Revoke a grant; return False if there was none."""
    params = {"base": base.no, "user": user, "account": account}
    return bool(await store.execute(SQL["revoke"], params))


async def _detailed(store: Statements, rows: Sequence[tuple[Any, ...]]) -> list[BaseRecord]:
    nos = [row[0] for row in rows]
    found = {row[0]: row[1:] for row in await store.fetch_all(SQL["base_details"], (nos,))}
    return [BaseRecord(*row, *found[row[0]]) for row in rows]


def _nothing_yet() -> Base:
    return Base(0, PERSONAL, PERSONAL, 0)


def alias_key(text: str) -> str:
    """Return the case-insensitive form of an alias."""
    return unicodedata.normalize("NFC", text).casefold()
