"""A file of Markdown into a page (contract on knowledge bases §2); no file is opened here."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import PurePosixPath

from gw.knowledge import front_matter
from gw.knowledge.faults import FolderFault
from gw.knowledge.front_matter import SourceEntry
from gw.knowledge.links import first_heading, links

PAGE_BYTES_MAX = 1024 * 1024
ID_CHARACTERS_MAX = 200
ID_FORBIDDEN = frozenset(",/[]|#")
SUFFIX = ".md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page as its file says it; `head` and `body` together are the file."""

    id: str
    path: str
    head: str
    body: str
    title: str
    summary: str
    tags: tuple[str, ...]
    aliases: tuple[str, ...]
    links: tuple[str, ...]
    confidence: str
    needs_review: bool
    source: SourceEntry | None


def parse_page(
    path: str, content: bytes, faults: list[FolderFault], warnings: list[FolderFault]
) -> Page | None:
    """Make a page of a file; None where a fault leaves nothing to make it of."""

    def blame(line: int, text: str) -> None:
        faults.append(FolderFault(path, line, text))

    def warn(line: int, text: str) -> None:
        warnings.append(FolderFault(path, line, text))

    page_id = unicodedata.normalize("NFC", PurePosixPath(path).name.removesuffix(SUFFIX))
    fault = id_fault(page_id)
    if fault:
        blame(1, fault)
    if len(content) > PAGE_BYTES_MAX:
        blame(1, f"a page is at most {PAGE_BYTES_MAX} bytes long")
        return None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        blame(line, f"the byte 0x{content[error.start]:02x} is not UTF-8")
        return None
    text = text.replace("\r\n", "\n")
    if "\0" in text:
        blame(text.count("\n", 0, text.index("\0")) + 1, "a NUL character")
        return None
    head, body, is_closed = front_matter.split(text)
    if not is_closed:
        blame(1, "the front matter that begins here has no end: a line `---`")
        return None
    front = front_matter.parse(head, blame, warn)
    return Page(
        id=page_id,
        path=path,
        head=head,
        body=body,
        title=front.title or first_heading(body) or page_id,
        summary=front.summary,
        tags=tuple(front.tags),
        aliases=tuple(front.aliases),
        links=tuple(links(body)),
        confidence=front.confidence,
        needs_review=front.needs_review,
        source=front.source,
    )


def id_fault(page_id: str) -> str:
    """Say why a text cannot be a page's id; empty where it can."""
    if not 1 <= len(page_id) <= ID_CHARACTERS_MAX:
        return f"a page's name has 1 to {ID_CHARACTERS_MAX} characters"
    for character in page_id:
        if character in ID_FORBIDDEN or unicodedata.category(character) in ("Cc", "Cs"):
            return f"a page's name cannot have the character {character!a}"
    return ""
