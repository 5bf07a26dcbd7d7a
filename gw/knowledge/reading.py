"""Reads pages by name, by tag and by backlink."""

from __future__ import annotations

import unicodedata
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from actors.store.connection import ConstraintViolated
from actors.store.database import Database, Session, Statements
from actors.store.queries import load
from actors.wallet.ledger import UnknownAccount

# Bodies are truncated to a number of characters; no body is longer than this.
WHOLE = 2**30


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A page's reference to its source document; `r2_key` is its name in the storage."""

    r2_key: str
    filename: str
    locator: str | None
    compiled_at: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class StoredPage:
    """A page with its links; `no` is the database's own number of it."""

    base: Base
    no: int
    id: str
    title: str
    summary: str
    tags: list[str]
    aliases: list[str]
    links: list[str]
    body: str
    is_truncated: bool
    confidence: str
    needs_review: bool
    source: StoredSource | None
    outgoing_links: list[tuple[str, bool, str | None]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A page in a list."""

    id: str
    title: str
    summary: str
    tags: list[str]


async def resolve(store: Statements, base: Base, names: Sequence[str]) -> list[int | None]:
    """Return the pages of ids or aliases, in their order; None for unknown names."""
    found = await first_of(store, [base.no], [(name, None) for name in names])
    return [page_no for _, page_no in found]


async def first_of(
    store: Statements, base_nos: Sequence[int], names: Sequence[tuple[str, int | None]]
) -> list[tuple[int, int] | tuple[None, None]]:
    """Return base and page of each name: of the first base that has it, or of its own base."""
    # PostgreSQL stores no NUL, so no page has one in its name.
    params = {
        "bases": list(base_nos),
        "names": [name.replace("\0", "\ufffd") for name, _ in names],
        "folded": [alias_key(name).replace("\0", "\ufffd") for name, _ in names],
        "only": [only for _, only in names],
    }
    return [(row[0], row[1]) for row in await store.fetch_all(SQL["locate"], params)]


async def read_pages(
    store: Statements, base: Base, nos: Sequence[int], *, characters: int = WHOLE
) -> dict[int, StoredPage]:
    """Return pages by their numbers, each body truncated to a number of characters."""
    params = {"nos": list(nos), "characters": characters}
    rows = await store.fetch_all(SQL["pages"], params)
    return {row[0]: _page(base, *row) for row in rows}


async def read_page(
    store: Statements, base: Base, name: str, *, characters: int = WHOLE
) -> StoredPage | None:
    """Return one page by its id or alias."""
    (no,) = await resolve(store, base, [name])
    if no is None:
        return None
    return (await read_pages(store, base, [no], characters=characters))[no]


async def tags(store: Statements, base: Base) -> list[tuple[str, int]]:
    """Return the tags of a base with their numbers of pages, most frequent first."""
    return [(row[0], row[1]) for row in await store.fetch_all(SQL["tags"], (base.no,))]


async def tagged(store: Statements, bases: Sequence[Base], tag: str) -> list[tuple[Base, Listed]]:
    """Return the pages with a tag, by base, then by id."""
    by_no = {base.no: base for base in bases if base.no}
    if "\0" in tag or not by_no:
        return []
    rows = await store.fetch_all(SQL["tagged"], {"bases": list(by_no), "tag": tag})
    return [(by_no[row[0]], Listed(*row[1:])) for row in rows]


async def backlinks(store: Statements, page_no: int) -> list[Listed]:
    """Return the other pages that link to a page, by id."""
    rows = await store.fetch_all(SQL["backlinks"], {"page": page_no})
    return [Listed(*row) for row in rows]


def _page(base: Base, no: int, *row: Any) -> StoredPage:
    (page_id, title, summary, page_tags, aliases, links, body, is_truncated) = row[:8]
    (confidence, needs_review, r2_key, filename, locator, compiled_at, model, outgoing) = row[8:]
    source = None
    if r2_key is not None:
        source = StoredSource(r2_key, filename, locator, compiled_at, model)
    return StoredPage(
        base=base,
        no=no,
        id=page_id,
        title=title,
        summary=summary,
        tags=page_tags,
        aliases=aliases,
        links=links,
        body=body,
        is_truncated=is_truncated,
        confidence=confidence,
        needs_review=needs_review,
        source=source,
        outgoing_links=[(one[0], one[1], one[2]) for one in outgoing],
    )


# Finds pages by name in several bases: the first base that has it wins, `KB_ID/ID` is exact.
#
# Names in results are chosen so that they lead back to their page.

SEPARATOR = "/"  # not allowed in ids of bases and pages


@dataclass(frozen=True, slots=True)
class Located:
    """The location of a page; `page_no` is its number in the database."""

    base: Base
    page_no: int


async def locate(
    store: Statements, bases: Sequence[Base], names: Sequence[str]
) -> list[Located | None]:
    """Return the locations of ids or aliases, in their order; None for unknown names.

    `bases` are the readable ones, in the order of the search.
    """
    by_no = {base.no: base for base in bases if base.no}
    if not by_no or not names:
        return [None] * len(names)
    by_id = {base.kb_id: base.no for base in by_no.values()}
    # A name may have two interpretations; the exact one takes precedence.
    readings: list[tuple[str, int | None]] = []
    owners: list[int] = []
    for at, name in enumerate(names):
        kb_id, separator, page = name.partition(SEPARATOR)
        ways: list[tuple[str, int | None]] = [(name, None)]
        if separator and kb_id in by_id:
            ways.insert(0, (page, by_id[kb_id]))
        readings += ways
        owners += [at] * len(ways)
    found: list[Located | None] = [None] * len(names)
    rows = await first_of(store, list(by_no), readings)
    for at, (base_no, page_no) in zip(owners, rows, strict=True):
        if found[at] is None and base_no is not None and page_no is not None:
            found[at] = Located(by_no[base_no], page_no)
    return found


async def name_pages(
    store: Statements, bases: Sequence[Base], pages: Sequence[tuple[Base, str]]
) -> list[str]:
    """Return a name of each page that `locate` finds: its id, if that is enough."""
    filled = [base for base in bases if base.no]
    first = filled[0].no if filled else 0
    asked = list(dict.fromkeys(page_id for base, page_id in pages if base.no != first))
    found = dict(zip(asked, await locate(store, filled, asked), strict=True))
    return [
        page_id
        if base.no == first or _leads_to(found[page_id], base)
        else f"{base.kb_id}{SEPARATOR}{page_id}"
        for base, page_id in pages
    ]


def _leads_to(located: Located | None, base: Base) -> bool:
    return located is not None and located.base.no == base.no


# The bases readable by a user, and an operator's functions: find, grant, remove.

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
    """A base as its operator sees it; `user` is None for a named one."""

    no: int
    kb_id: str
    user: str | None
    name: str
    pages: int
    is_restricted: bool
    updated_at: datetime | None
    sources: int = 0
    granted_to_users: Sequence[str] = ()
    granted_to_accounts: Sequence[str] = ()


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


async def find(store: Statements, account_id: str, kb_id: str, user: str | None) -> BaseRecord:
    """Return a base of an account. Raises UnknownBase; a personal one always exists."""
    params = {"account": account_id, "kb": kb_id, "user": user}
    row = await store.fetch_one(SQL["find_base"], params)
    if row is None:
        if user is None:
            raise UnknownBase(kb_id)
        return BaseRecord(0, kb_id, user, kb_id, 0, False, None)
    return (await _detailed(store, [row]))[0]


async def list_all(store: Statements, account_id: str) -> list[BaseRecord]:
    """Return every imported base of an account."""
    return await _detailed(store, await store.fetch_all(SQL["list_bases"], (account_id,)))


async def unresolved(store: Statements, base: BaseRecord) -> list[tuple[str, str]]:
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
