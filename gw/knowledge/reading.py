"""Reads pages by name, by tag and by backlink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

from actors.store.session import Statements
from gw.knowledge.bases import SQL, Base, alias_key

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
    # PostgreSQL stores no NUL, so no page has one in its name; and ids are NFC (`pages.py`), as
    # whatever is looked for must be.
    params = {
        "bases": list(base_nos),
        "names": [normalize("NFC", name).replace("\0", "\ufffd") for name, _ in names],
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
