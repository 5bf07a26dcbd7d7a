"""Parses a Markdown file into a page (reference 8.2); opens no file."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gw.knowledge.front_matter import SourceEntry, parse_head, split_head
from gw.knowledge.markdown import first_heading, links


@dataclass(frozen=True, slots=True, order=True)
class FolderFault:
    """One fault at a line (from 1) of a file, whose path is relative to the folder."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class FolderFaults(Exception):
    """The folder cannot be imported; nothing was changed."""

    def __init__(self, faults: Sequence[FolderFault]) -> None:
        self.faults = sorted(faults)
        super().__init__("\n".join(map(str, self.faults)))


PAGE_BYTES_MAX = 1024 * 1024
# Title, summary and tags are in each list that the page is in.
HEAD_CHARACTERS_MAX = 32 * 1024
HEADING_CHARACTERS_MAX = 1000
ID_CHARACTERS_MAX = 200
ID_FORBIDDEN = frozenset(",/[]|#")
SUFFIX = ".md"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgePage:
    """One page of a file; `head` and `body` together are the file."""

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
) -> KnowledgePage | None:
    """Parse a page of a file; None if faults prevent it."""

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
    head, body, is_closed = split_head(text)
    if not is_closed:
        blame(1, "the front matter that begins here has no end: a line `---`")
        return None
    if len(head) > HEAD_CHARACTERS_MAX:
        blame(1, f"the front matter is at most {HEAD_CHARACTERS_MAX} characters long")
        return None
    front = parse_head(head, blame, warn)
    return KnowledgePage(
        id=page_id,
        path=path,
        head=head,
        body=body,
        title=front.title or first_heading(body)[:HEADING_CHARACTERS_MAX] or page_id,
        summary=front.summary,
        tags=tuple(front.tags),
        aliases=tuple(front.aliases),
        links=tuple(links(body)),
        confidence=front.confidence,
        needs_review=front.needs_review,
        source=front.source,
    )


def id_fault(page_id: str) -> str:
    """Return the fault of a page's id, or an empty text."""
    if not 1 <= len(page_id) <= ID_CHARACTERS_MAX:
        return f"a page's name has 1 to {ID_CHARACTERS_MAX} characters"
    for character in page_id:
        if character in ID_FORBIDDEN or unicodedata.category(character) in ("Cc", "Cs"):
            return f"a page's name cannot have the character {character!a}"
    return ""
