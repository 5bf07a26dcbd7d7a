"""Imports a folder into a base, in one transaction."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, TypeVar

from actors.store.database import Database
from actors.store.errors import ConstraintViolated
from actors.store.session import Session
from actors.wallet.ledger import UnknownAccount
from gw.knowledge.bases import PERSONAL, SQL, alias_key
from gw.knowledge.fields import field_parts
from gw.knowledge.folder import Folder, Source, unread
from gw.knowledge.pages import FolderFault, FolderFaults, KnowledgePage
from gw.knowledge.sources import SourceStore, r2_key
from gw.knowledge.words import folded_name

# Part of every page's digest: increased when the same file is stored or found differently.
FORMAT = 2
# Bounds of one statement, so that none takes a second: characters of JSON stored; rows stored,
# removed or changed; bytes of pages (with a lexeme per six bytes or so); entries of lists written.
# Each is at least one page, one row of terms, one list.
BATCH_CHARACTERS = 400_000
ROWS_MAX = 5000
NOTED_BYTES = 200_000
NOTED_PAGES = 500
ENTRIES_MAX = 30_000
ACCOUNT_MISSING = "kb_bases_of_account"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """The base of an import; without `kb_id` the user's own.

    None keeps a name or a restriction.
    """

    account_id: str
    kb_id: str = PERSONAL
    user: str | None = None
    name: str | None = None
    is_restricted: bool | None = None


class Stored(NamedTuple):
    """A stored page; its length is in bytes of its body."""

    no: int
    slot: int
    length: int


@dataclass(slots=True)
class Imported:
    """The result of an import, counted in pages; `sources` are those of the base."""

    pages: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    sources: int = 0
    warnings: list[str] = field(default_factory=list)


async def import_folder(
    database: Database,
    target: ImportTarget,
    folder: Folder,
    sources: SourceStore,
    *,
    keep: bool,
    also: Callable[[Session, Imported], Awaitable[None]] | None = None,
) -> Imported:
    """Replace the base by the folder; with `keep`, pages without a file stay.

    `also` runs in the same transaction, as its last step.

    Raises UnknownAccount, FolderFaults when a source has disappeared, OSError when one cannot be
    stored, StoreError: nothing has changed. `clean_up` removes sources afterwards.
    """
    result = Imported(warnings=[str(warning) for warning in sorted(folder.warnings)])
    async with database.transaction() as session:
        await begin_changing(session, target.account_id)
        base_no = await _base(session, target)
        stored = {
            row[0]: (Stored(row[1], row[3], row[4]), bytes(row[2]))
            for row in await session.fetch_all(SQL["stored_pages"], (base_no,))
        }
        fresh, gone = _changes(folder, stored, result, keep=keep)
        await asyncio.to_thread(_store_sources, sources, target.account_id, folder)
        if gone or fresh:
            await remove_pages(session, base_no, gone)
            taken = {one.slot for one, _ in stored.values()} - {one.slot for one in gone}
            slots = (slot for slot in count() if slot not in taken)
            for batch in _batches(fresh):
                new = await _insert(session, base_no, target.account_id, batch, folder, slots)
                for some in _by_length(new):
                    await _note(session, "note_new", base_no, some)
            await settle_pages(session, base_no, gone)
        used = await session.fetch_all(SQL["base_details"], ([base_no],))
        result.sources = used[0][1]
        result.pages = len(stored) - result.removed + result.added
        if also is not None:
            await also(session, result)
    return result


def _changes(
    folder: Folder, stored: Mapping[str, tuple[Stored, bytes]], result: Imported, *, keep: bool
) -> tuple[list[tuple[KnowledgePage, bytes]], list[Stored]]:
    """Return the pages to write with their digests, and those to remove; count them."""
    fresh: list[tuple[KnowledgePage, bytes]] = []
    gone = [] if keep else [one for page, (one, _) in stored.items() if page not in folder.pages]
    result.removed = len(gone)
    for page in folder.pages.values():
        digest = _digest(page, folder.sources.get(page.id))
        there, before = stored.get(page.id, (None, b""))
        if before == digest:
            result.unchanged += 1
            continue
        fresh.append((page, digest))
        if there is not None:
            gone.append(there)
            result.changed += 1
        else:
            result.added += 1
    return fresh, gone


async def begin_changing(session: Session, account_id: str) -> None:
    """Begin a change of an account's bases, one at a time."""
    await session.execute(SQL["lock_account"], (account_id,))
    await session.execute(SQL["begin_changing"])
    await session.execute(SQL["mark_unclean"], (account_id,))


async def settle_pages(session: Session, base_no: int, gone: list[Stored]) -> None:
    """Update the state derived from all pages of a base; `gone` were removed from it."""
    changes: dict[str, Any] = {"base": base_no, "gone": [one.slot for one in gone]}
    after: str | None = ""
    while after is not None:
        changes |= {"after": after, "budget": ENTRIES_MAX}
        ((after,),) = await session.fetch_all(SQL["apply_changes"], changes)
    nos = [row[0] for row in await session.fetch_all(SQL["page_nos"], (base_no,))]
    for some in _portions(nos, ROWS_MAX):
        await _resolve_links(session, some)
    await session.execute(SQL["count_pages"], {"base": base_no})
    await session.execute(SQL["tidy_terms"])


async def remove_pages(
    session: Session, base_no: int, gone: list[Stored], *, are_noted: bool = True
) -> None:
    """Remove pages, and record the lexemes that still list them (`settle_pages`)."""
    for some in _by_length(gone):
        nos = [one.no for one in some]
        if are_noted:
            await _note(session, "note_gone", base_no, some)
        await until_none(session, "remove_links", {"nos": nos})
        await session.execute(SQL["remove_pages"], {"nos": nos})


async def until_none(session: Session, name: str, parameters: dict[str, Any]) -> None:
    """Repeat a statement that removes `limit` rows until it removes fewer."""
    while await session.execute(SQL[name], {**parameters, "limit": ROWS_MAX}) == ROWS_MAX:
        pass


async def _note(session: Session, name: str, base_no: int, pages: list[Stored]) -> None:
    """Record the changes of a base's lists by some pages, in several shares if long."""
    shares = max(1, sum(one.length for one in pages) // NOTED_BYTES)
    noted: dict[str, Any] = {"base": base_no, "nos": [one.no for one in pages], "shares": shares}
    for share in range(shares):
        await session.execute(SQL[name], {**noted, "share": share})


async def _resolve_links(session: Session, nos: list[int]) -> None:
    first = 0
    while nos:
        some = {"nos": nos, "first": first, "limit": ROWS_MAX}
        last = await session.fetch_one(SQL["resolve_links"], some)
        if last is None:
            return
        nos, first = nos[nos.index(last[0]) :], last[1] + 1


def _by_length(pages: list[Stored]) -> Iterator[list[Stored]]:
    """Yield pages in portions bounded in number and, except for single pages, in text."""
    some: list[Stored] = []
    length = 0
    for one in pages:
        if some and (length + one.length > NOTED_BYTES or len(some) == NOTED_PAGES):
            yield some
            some, length = [], 0
        some.append(one)
        length += one.length
    if some:
        yield some


def _portions(rows: list[T], size: int) -> Iterator[list[T]]:
    return (rows[at : at + size] for at in range(0, len(rows), size))


async def _base(session: Session, target: ImportTarget) -> int:
    """Return the base's number; create it if missing. Raises UnknownAccount."""
    row = await session.fetch_one(SQL["find_base"], base_key(target))
    if row is not None:
        settings = {"name": target.name, "restricted": target.is_restricted, "base": row[0]}
        await session.execute(SQL["set_base"], settings)
        return int(row[0])
    name, is_restricted = target.name or target.kb_id, bool(target.is_restricted)
    try:
        row = await session.fetch_one(
            SQL["insert_base"], {**base_key(target), "name": name, "restricted": is_restricted}
        )
    except ConstraintViolated as error:
        if error.constraint_name == ACCOUNT_MISSING:
            raise UnknownAccount(target.account_id) from error
        raise
    assert row is not None
    return int(row[0])


def base_key(target: ImportTarget) -> dict[str, Any]:
    """Return the parameters that select the base of a target."""
    return {"account": target.account_id, "kb": target.kb_id, "user": target.user}


def _digest(page: KnowledgePage, source: Source | None) -> bytes:
    whole = [FORMAT, page.path, page.head, page.body]
    if source is not None:
        whole += [source.path, source.filename, source.sha256]
    return hashlib.sha256(json.dumps(whole).encode()).digest()


def _store_sources(sources: SourceStore, account_id: str, folder: Folder) -> None:
    for page_id, source in folder.sources.items():
        name = r2_key(account_id, source.sha256, source.filename)
        try:
            sources.put(name, source.file, source.sha256)
        except OSError as error:
            if error.filename != str(source.file):
                raise
            text = f"the source {source.entry.path} {unread(error)}"
            fault = FolderFault(folder.pages[page_id].path, source.entry.line, text)
            raise FolderFaults([fault]) from error


def _batches(
    fresh: list[tuple[KnowledgePage, bytes]],
) -> Iterator[list[tuple[KnowledgePage, bytes]]]:
    return _by_characters(fresh, lambda one: 1000 + len(one[0].head) + len(one[0].body))


def _by_characters(rows: list[T], length: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield rows in portions, each of which ends with the row that reaches the bound."""
    some: list[T] = []
    characters = 0
    for row in rows:
        characters += length(row)
        some.append(row)
        if characters > BATCH_CHARACTERS:
            yield some
            some, characters = [], 0
    if some:
        yield some


async def _insert(
    session: Session,
    base_no: int,
    account_id: str,
    batch: list[tuple[KnowledgePage, bytes]],
    folder: Folder,
    slots: Iterator[int],
) -> list[Stored]:
    """Store pages, each in the next slot."""
    rows = [
        {"slot": next(slots), **_row(page, digest, account_id, folder.sources.get(page.id))}
        for page, digest in batch
    ]
    made: list[Any] = await session.fetch_all(SQL["insert_pages"], _rows(base_no, rows))
    nos: dict[str, int] = dict(made)
    names, links, terms = [], [], []
    for page, _ in batch:
        no = nos[page.id]
        names += [{"page_no": no, "kind": kind, "name": name} for kind, name in _names(page)]
        links += [
            {"page_no": no, "n": n, "target": target, "folded": alias_key(target)}
            for n, target in enumerate(page.links)
        ]
        terms += [
            {
                "page_no": no,
                "field": part.field,
                "part": part.part,
                "starts": part.starts,
                "ends": part.ends,
                "terms": part.terms,
            }
            for part in field_parts(page, base_no)
        ]
    for some in _portions(names, ROWS_MAX):
        await session.execute(SQL["insert_names"], _rows(base_no, some))
    for some in _portions(links, ROWS_MAX):
        await session.execute(SQL["insert_links"], _rows(base_no, some))
    for some in _by_characters(terms, lambda row: len(str(row["terms"]))):
        await session.execute(SQL["insert_terms"], _rows(base_no, some))
    return [
        Stored(nos[page.id], row["slot"], len(page.body.encode()))
        for (page, _), row in zip(batch, rows, strict=True)
    ]


def _names(page: KnowledgePage) -> list[tuple[str, str]]:
    found = [("alias", alias_key(alias)) for alias in page.aliases]
    found += [("equal", folded_name(name)) for name in (page.id, page.title, *page.aliases)]
    return list(dict.fromkeys(found))


def _row(
    page: KnowledgePage, digest: bytes, account_id: str, source: Source | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": page.id,
        "path": page.path,
        "digest": digest.hex(),
        "head": page.head,
        "body": page.body,
        "title": page.title,
        "summary": page.summary,
        "tags": page.tags,
        "aliases": page.aliases,
        "confidence": page.confidence,
        "needs_review": page.needs_review,
    }
    if source is not None:
        entry = source.entry
        row |= {
            "r2_key": r2_key(account_id, source.sha256, source.filename),
            "source_path": source.path,
            "filename": source.filename,
            "locator": entry.locator,
            "compiled_at": entry.compiled_at,
            "model": entry.model,
        }
    return row


def _rows(base_no: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"base": base_no, "rows": json.dumps(rows, ensure_ascii=False)}
