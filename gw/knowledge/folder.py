"""Reads a folder of pages from the disk, and reports every fault before anything is stored.

Names that begin with a dot are skipped. Symbolic links to files outside the folder are not read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gw.knowledge.front_matter import SourceEntry
from gw.knowledge.pages import (
    PAGE_BYTES_MAX,
    SUFFIX,
    FolderFault,
    FolderFaults,
    KnowledgePage,
    parse_page,
)

FILENAME_BYTES_MAX = 255
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A source document of a page: its path in the folder, and its content."""

    entry: SourceEntry
    path: str  # relative to the folder, with slashes
    filename: str
    file: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Folder:
    """Pages by id, their sources, and warnings."""

    pages: dict[str, KnowledgePage]
    sources: dict[str, Source]
    warnings: list[FolderFault]


def read_folder(root: Path, *, source_mb_max: int) -> Folder:
    """Read every page below `root`. Raises FolderFaults with all faults, OSError without `root`."""
    faults: list[FolderFault] = []
    warnings: list[FolderFault] = []
    pages: dict[str, KnowledgePage] = {}
    sources: dict[str, Source] = {}
    top = root.resolve()
    hashes: dict[Path, str] = {}
    for path in _files(root, faults, warnings):
        page = _page(top, path, faults, warnings)
        if page is None:
            continue
        if page.id in pages:
            other = pages[page.id].path
            faults.append(
                FolderFault(path, 1, f"the page {page.id} is there twice: {other} and {path}")
            )
            continue
        pages[page.id] = page
        if page.source is not None:
            source = _source(top, page, page.source, source_mb_max, hashes, faults)
            if source is not None:
                sources[page.id] = source
    if not pages and not faults:
        faults.append(FolderFault(".", 1, f"the folder has no pages (files that end in {SUFFIX})"))
    if faults:
        raise FolderFaults(faults)
    return Folder(pages, sources, warnings + alias_warnings(pages))


def alias_warnings(pages: dict[str, KnowledgePage]) -> list[FolderFault]:
    """Return warnings of aliases that two pages have: the page with the smaller id gets them."""
    owner: dict[str, str] = {}
    warnings = []
    for page_id in sorted(pages):
        for alias in pages[page_id].aliases:
            first = owner.setdefault(alias.casefold(), page_id)
            if first != page_id:
                text = f"the alias {alias} is also one of {first}, which it leads to"
                warnings.append(FolderFault(pages[page_id].path, 1, text))
    return warnings


def _files(root: Path, faults: list[FolderFault], warnings: list[FolderFault]) -> Iterator[str]:
    """Yield the paths of pages, relative to `root`, in order."""

    def fail(error: OSError) -> None:
        where = Path(error.filename or root)
        faults.append(FolderFault(_shown(where.relative_to(root)), 1, unread(error)))

    for folder, folders, files in os.walk(root, onerror=fail):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        where = Path(folder).relative_to(root)
        for name in folders:
            if name.endswith(SUFFIX):
                faults.append(FolderFault(_shown(where / name), 1, "is a folder, and no page"))
            elif (Path(folder) / name).is_symlink():
                text = "a link to a folder, in which no pages are looked for"
                warnings.append(FolderFault(_shown(where / name), 1, text))
        for name in sorted(files):
            if name.endswith(SUFFIX) and not name.startswith("."):
                yield (where / name).as_posix()


def _page(
    top: Path, path: str, faults: list[FolderFault], warnings: list[FolderFault]
) -> KnowledgePage | None:
    try:
        path.encode()
    except UnicodeEncodeError:
        faults.append(FolderFault(_shown(Path(path)), 1, "the file's name is not UTF-8"))
        return None
    try:
        file = _inside(top, path)
        if isinstance(file, str):
            faults.append(FolderFault(path, 1, file))
            return None
        with file.open("rb") as opened:
            content = opened.read(PAGE_BYTES_MAX + 1)
    except OSError as error:
        faults.append(FolderFault(path, 1, unread(error)))
        return None
    return parse_page(path, content, faults, warnings)


def _source(
    top: Path,
    page: KnowledgePage,
    entry: SourceEntry,
    mb_max: int,
    hashes: dict[Path, str],
    faults: list[FolderFault],
) -> Source | None:
    def blame(text: str) -> None:
        faults.append(FolderFault(page.path, entry.line, text))

    parent = PurePosixPath(page.path).parent.as_posix()
    path = os.path.normpath(os.path.join(parent, entry.path))
    filename = entry.filename or PurePosixPath(path).name
    if fault := filename_fault(filename):
        blame(fault)
        return None
    try:
        file = _inside(top, path)
        if isinstance(file, str):
            blame(f"the source {entry.path} {file}")
            return None
        if file.stat().st_size > mb_max * MIB:
            blame(f"the source {entry.path} is larger than {mb_max} MB (kb_store.max_source_mb)")
            return None
        if file not in hashes:
            with file.open("rb") as opened:
                hashes[file] = hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        blame(f"the source {entry.path} {unread(error)}")
        return None
    return Source(entry, path, filename, file, hashes[file])


def filename_fault(name: str) -> str:
    """Return the fault of a source's name, or an empty text."""
    if name in ("", ".", "..") or "/" in name or not name.isprintable():
        return f"{name!a} is no name for a file"
    if len(name.encode("utf-8", "surrogatepass")) > FILENAME_BYTES_MAX:
        return f"a source's name has at most {FILENAME_BYTES_MAX} bytes"
    return ""


def unread(error: OSError) -> str:
    """Return the message that a file cannot be read, with the reason."""
    return f"cannot be read: {error.strerror}"


def _shown(path: Path) -> str:
    """Return a path as faults show it: in ASCII if it is not UTF-8."""
    name = path.as_posix()
    return name if name.isprintable() else ascii(name)


def _inside(top: Path, path: str) -> Path | str:
    """Return the real file of a path, or the reason not to read it. Raises OSError."""
    if path.startswith(("/", "../")) or path in ("..", "."):
        return "lies outside of the folder"
    try:
        file = Path(os.path.realpath(top / path, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            return "is a link that leads back to itself"
        raise
    if not file.is_relative_to(top):
        return "lies outside of the folder"
    if not stat.S_ISREG(file.stat().st_mode):
        return "is no file"
    return file
