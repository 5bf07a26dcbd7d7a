"""Exports a base into a folder; importing that returns the same base."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from actors.store.session import Statements
from gw.knowledge.bases import SQL, BaseRecord
from gw.knowledge.sources import SourceStore


class ExportRefused(Exception):
    """The folder is not empty, or the base does not fit into one."""


async def export_base(
    store: Statements, base: BaseRecord, sources: SourceStore, folder: Path
) -> int:
    """Write the files of a base; return the number of pages. Raises ExportRefused, OSError."""
    rows = await store.fetch_all(SQL["exported"], (base.no,))
    await asyncio.to_thread(_write, rows, sources, folder)
    return len(rows)


def _write(rows: list[tuple[Any, ...]], sources: SourceStore, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ExportRefused(f"{folder} is not empty")
    for path, text, _, _ in rows:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    # After the pages, because a source may be one of them, byte by byte.
    found: dict[str, str] = {}
    for _, _, path, name in rows:
        if path is None or found.get(path) == name:
            continue
        if path in found:
            raise ExportRefused(f"two sources of different contents stood at {path}")
        found[path] = name
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        sources.fetch(name, target)
