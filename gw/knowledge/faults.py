"""What is wrong with a folder of pages, or merely odd about it: every place at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class FolderFault:
    """One thing at a line (from 1) of a file, whose path is relative to the folder."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class FolderFaults(Exception):
    """A folder that cannot be imported; nothing of it was."""

    def __init__(self, faults: Sequence[FolderFault]) -> None:
        self.faults = sorted(faults)
        super().__init__("\n".join(map(str, self.faults)))
