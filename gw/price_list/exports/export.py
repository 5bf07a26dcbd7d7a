"""A provider's usage export: its figures per model and day (UTC), and its pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

# By member: `input`, which includes the tokens read from a cache (`cached`) and written to one
# (`cache_write`); `output`; `cost`, in nano-USD.
Figures: TypeAlias = Mapping[str, Fraction]


class TextFile(Protocol):
    """The part of a text file's interface that is used here."""

    def read(self, size: int, /) -> str:
        """Return at most `size` characters; none at the end. Raises UnicodeDecodeError."""


class NoExport(Exception):
    """The file is no supported export, or is broken; the message gives the position."""


@dataclass(frozen=True, slots=True)
class ExportEntry:
    """A provider's figures of one model on one day; only the members that the export states.

    `model` is the provider's name, or a description that contains it; None: nothing was used.
    """

    day: date
    model: str | None
    figures: Figures


@dataclass(frozen=True, slots=True)
class Export:
    """An export and the iterator of its entries, which raises NoExport."""

    provider: str  # `openai`, `anthropic` or `google`
    entries: Iterator[ExportEntry]


Piece: TypeAlias = Mapping[str, Any]
PieceReader: TypeAlias = Callable[[Piece], Iterator[ExportEntry]]
