"""A folder into a base, in one transaction: readers see the base before it or after it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from actors.store.database import ConstraintViolated, Database
from actors.store.session import Session
from actors.wallet.ledger import UnknownAccount
from gw.knowledge.bases import PERSONAL, SQL
from gw.knowledge.faults import FolderFault, FolderFaults
from gw.knowledge.folder import Folder, Source, unread
from gw.knowledge.pages import Page
from gw.knowledge.sources import SourceStore, r2_key
from gw.knowledge.tokens import folded_name
from gw.knowledge.vectors import field_parts

# Part of every page's digest: raised when the same file is stored or found differently.
FORMAT = 2
# So much text goes into one statement, and at least one page.
BATCH_CHARACTERS = 2_000_000
# So many pages are entered under their lexemes at once; the lists of common ones are rewritten.
ENTERED_PAGES = 2000
ACCOUNT_MISSING = "kb_bases_of_account"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportTarget:
    """The base that a folder becomes; without `kb_id` the user's own.

    None leaves a name or a restriction as it is.
    """

    account_id: str
    kb_id: str = PERSONAL
    user: str | None = None
    name: str | None = None
    is_restricted: bool | None = None


@dataclass(slots=True)
class Imported:
    """What an import has done, counted in pages; `sources` are those of the base."""

    pages: int = 0
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    sources: int = 0
    warnings: list[str] = field(default_factory=list)


async def import_folder(
    database: Database, target: ImportTarget, folder: Folder, sources: SourceStore, *, keep: bool
) -> Imported:
    """Make the base the folder; with `keep` pages without a file stay.

    Raises UnknownAccount, FolderFaults when a source has gone meanwhile, OSError when one cannot be
    stored, StoreError: nothing has changed.
    """
    result = Imported(warnings=[str(warning) for warning in sorted(folder.warnings)])
    async with database.transaction() as session:
        await session.execute(SQL["lock_account"], (target.account_id,))
        base_no = await _base(session, target)
        stored = {
            row[0]: (row[1], bytes(row[2]), row[3])
            for row in await session.fetch_all(SQL["stored_pages"], (base_no,))
        }
        fresh: list[tuple[Page, bytes]] = []
        gone = [] if keep else [no for page, (no, *_) in stored.items() if page not in folder.pages]
        result.removed = len(gone)
        for page in folder.pages.values():
            digest = _digest(page, folder.sources.get(page.id))
            no, before, _ = stored.get(page.id, (0, b"", 0))
            if before == digest:
                result.unchanged += 1
                continue
            fresh.append((page, digest))
            if no:
                gone.append(no)
                result.changed += 1
            else:
                result.added += 1
        await asyncio.to_thread(_store_sources, sources, target.account_id, folder)
        if gone or fresh:
            await remove_pages(session, base_no, gone)
            lost = set(gone)
            taken = {slot for no, _, slot in stored.values() if no not in lost}
            slots = (slot for slot in count() if slot not in taken)
            nos: list[int] = []
            for batch in _batches(fresh):
                nos += await _insert(session, base_no, target.account_id, batch, folder, slots)
            for at in range(0, len(nos), ENTERED_PAGES):
                entered = nos[at : at + ENTERED_PAGES]
                await session.execute(SQL["add_postings"], (base_no, entered))
            await settle_pages(session, base_no)
        used = await session.fetch_all(SQL["base_details"], ([base_no],))
        result.sources = used[0][1]
        result.pages = len(stored) - result.removed + result.added
    await drop_unused_sources(database, sources, target.account_id)
    return result


async def settle_pages(session: Session, base_no: int) -> None:
    """Bring what depends on all pages of a base up to date."""
    await session.execute(SQL["resolve_links"], (base_no,))
    await session.execute(SQL["count_pages"], {"base": base_no})
    await session.execute(SQL["tidy_terms"])


async def remove_pages(session: Session, base_no: int, nos: list[int]) -> None:
    """Remove pages with all that finds them."""
    await session.execute(SQL["drop_postings"], (base_no, nos))
    await session.execute(SQL["remove_pages"], (nos,))


async def drop_unused_sources(database: Database, sources: SourceStore, account_id: str) -> None:
    """Delete the account's sources that no page names, also what a failed import left behind."""
    async with database.transaction() as session:
        await session.execute(SQL["lock_account"], (account_id,))
        rows = await session.fetch_all(SQL["used_sources"], (account_id,))
        used = {row[0] for row in rows}
        await asyncio.to_thread(sources.keep_only, account_id, used)


async def _base(session: Session, target: ImportTarget) -> int:
    """The base's number; a new base where there is none. Raises UnknownAccount."""
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
    """What the base of a target is found by."""
    return {"account": target.account_id, "kb": target.kb_id, "user": target.user}


def _digest(page: Page, source: Source | None) -> bytes:
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


def _batches(fresh: list[tuple[Page, bytes]]) -> Iterator[list[tuple[Page, bytes]]]:
    batch: list[tuple[Page, bytes]] = []
    characters = 0
    for page, digest in fresh:
        # A page's terms are some times as long as its text.
        characters += 1000 + 6 * (len(page.head) + len(page.body))
        batch.append((page, digest))
        if characters > BATCH_CHARACTERS:
            yield batch
            batch, characters = [], 0
    if batch:
        yield batch


async def _insert(
    session: Session,
    base_no: int,
    account_id: str,
    batch: list[tuple[Page, bytes]],
    folder: Folder,
    slots: Iterator[int],
) -> list[int]:
    """Store pages, each at the next of the slots; their numbers."""
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
    await session.execute(SQL["insert_names"], _rows(base_no, names))
    await session.execute(SQL["insert_links"], _rows(base_no, links))
    await session.execute(SQL["insert_terms"], _rows(base_no, terms))
    return list(nos.values())


def alias_key(text: str) -> str:
    """What an alias is found by: it has no case."""
    return unicodedata.normalize("NFC", text).casefold()


def _names(page: Page) -> list[tuple[str, str]]:
    found = [("alias", alias_key(alias)) for alias in page.aliases]
    found += [("equal", folded_name(name)) for name in (page.id, page.title, *page.aliases)]
    return list(dict.fromkeys(found))


def _row(page: Page, digest: bytes, account_id: str, source: Source | None) -> dict[str, Any]:
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
