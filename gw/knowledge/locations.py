"""Finds pages by name in several bases: the first base that has it wins, `KB_ID/ID` is exact.

Names in results are chosen so that they lead back to their page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.store.session import Statements
from gw.knowledge.bases import Base
from gw.knowledge.reading import first_of

SEPARATOR = "/"  # not allowed in ids of bases and pages


@dataclass(frozen=True, slots=True)
class PageLocation:
    """The location of a page; `page_no` is its number in the database."""

    base: Base
    page_no: int


async def locate(
    store: Statements, bases: Sequence[Base], names: Sequence[str]
) -> list[PageLocation | None]:
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
    found: list[PageLocation | None] = [None] * len(names)
    rows = await first_of(store, list(by_no), readings)
    for at, (base_no, page_no) in zip(owners, rows, strict=True):
        if found[at] is None and base_no is not None and page_no is not None:
            found[at] = PageLocation(by_no[base_no], page_no)
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


def _leads_to(located: PageLocation | None, base: Base) -> bool:
    return located is not None and located.base.no == base.no
