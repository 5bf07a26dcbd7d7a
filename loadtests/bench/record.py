"""What was measured, kept in a file beside the table, so that a part can be measured again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from loadtests.bench.figures import Section


@dataclass
class Measured:
    """A piece of work of one run, when and how it was measured; without figures, why (`fault`)."""

    date: str
    command: str
    verified: int = 0  # gateways after which `gw ledger verify` found nothing
    section: Section | None = None
    fault: str | None = None


@dataclass
class Record:
    """Pieces of work by name. `surroundings` are lines: the machine, versions, placement."""

    surroundings: Sequence[str]
    is_full: bool
    work: dict[str, Measured] = field(default_factory=dict)

    def put(self, name: str, measured: Measured, order: Sequence[str]) -> None:
        """Replace a piece of work, in the order of the table."""
        work = {**self.work, name: measured}
        self.work = {one: work[one] for one in order if one in work}


def begin(table: Path | None, surroundings: Sequence[str], *, is_full: bool) -> Record:
    """The record of a table to go on with.

    A new one when there is none or it is of another machine, of other versions or of a quick run:
    such figures do not stand side by side.
    """
    new = Record(list(surroundings), is_full)
    path = None if table is None else table.with_suffix(".json")
    if path is None or not path.exists():
        return new
    kept = msgspec.json.decode(path.read_bytes(), type=Record)
    is_same = (list(kept.surroundings), kept.is_full) == (new.surroundings, is_full)
    return kept if is_same else new


def keep(record: Record, table: Path, text: str) -> None:
    """Write the table and its figures."""
    table.parent.mkdir(parents=True, exist_ok=True)
    table.write_text(text, encoding="utf-8")
    data = msgspec.json.format(msgspec.json.encode(record), indent=1)
    table.with_suffix(".json").write_bytes(data + b"\n")
