"""Pages by name over several bases: the first base that has it wins, `KB_ID/ID` names one exactly.

What a page is called in turn is made so that the name leads back to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.store.session import Statements
from gw.knowledge.bases import Base
from gw.knowledge.reading import first_of

SEPARATOR = "/"  # which no base's and no page's id has


@dataclass(frozen=True, slots=True)
class Located:
    """Where a page is; `page_no` is the database's own number of it."""

    base: Base
    page_no: int


async def locate(
    store: Statements, bases: Sequence[Base], names: Sequence[str]
) -> list[Located | None]:
    """Where ids or aliases lead, in their order; None where nothing has the name.

    `bases` are those that may be read, in the order in which they are looked through.
    """
    by_no = {base.no: base for base in bases if base.no}
    if not by_no or not names:
        return [None] * len(names)
    by_id = {base.kb_id: base.no for base in by_no.values()}
    # A name may be read in two ways, of which the exact one goes first.
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
    """What each page of a base is called so that `locate` finds it: its id, where that does."""
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
