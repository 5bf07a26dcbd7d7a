"""The table of faults, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from loadtests.chaos.run import Result
from loadtests.rig.machine import description

_COLUMNS = (
    "fault",
    "calls",
    "answered",
    "refused",
    "interrupted",
    "unanswered",
    "left",
    "lost",
    "double-settled",
    "forgotten",
    "open holds after 30 s",
    "leaked slots",
    "well after",
    "quiet after",
    "promises",
)
HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


def row(result: Result) -> str:
    """One line."""
    verdict = result.verdict
    seen = verdict.outcomes
    fields = (
        result.name,
        result.calls,
        seen["answered"],
        seen["refused"],
        seen["interrupted"] + seen["cut"],
        seen["unanswered"] + seen["hung"],
        seen["left"],
        verdict.lost,
        verdict.double,
        verdict.forgotten,
        result.open_holds,
        result.leaked_slots,
        _seconds(result.well_after),
        _seconds(result.quiet_after),
        "kept" if result.is_kept else f"**{len(verdict.breaches)} broken**",
    )
    return f"| {' | '.join(map(str, fields))} |"


def page(results: Sequence[Result], command: str) -> str:
    """The page of a run."""
    return "\n".join(
        [
            "# Faults under load",
            "",
            f"`{command}`. What each row and column means stands in",
            "[`README.md`](README.md#opschaos).",
            "",
            *(f"- {line}" for line in description()),
            "",
            HEAD,
            *map(row, results),
            "",
        ]
    )


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f} s"
