"""`gw reconcile`: compare a provider's usage export with the call log, by day and model.

Exit code 0: equal, 1: different, 2: the file is no export. `gw/price_list/exports/` parses
exports in bounded memory.
"""

from __future__ import annotations

import asyncio
import re
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.store.database import Database
from actors.store.queries import load
from actors.wallet.money import format_usd
from channels.registry import Registry
from gw.cli.arguments import add_command
from gw.cli.context import opened, read_config
from gw.cli.failures import EXIT_REFUSED, UsageFault
from gw.cli.output import Result, table
from gw.config.config import Config
from gw.price_list.exports.export import Export, NoExport
from gw.price_list.exports.reading import read_export
from gw.price_list.offers import provider_of
from gw.price_list.reading import bundled

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

SQL = load("gw.cli", "reconcile.sql")
# The kinds of channels whose calls an export counts.
KINDS: Mapping[str, frozenset[str]] = {
    "openai": frozenset({"openai"}),
    "anthropic": frozenset({"anthropic"}),
    "google": frozenset({"gemini", "vertex"}),
}
MEMBERS = ("input", "cached", "cache_write", "output", "cost")
COLUMNS = ("day", "model", "what", "ours", "theirs", "difference")
# Limits of an export: days, names of models outside the configuration, figures by day and model.
DAYS_MAX = 1100
MODELS_MAX = 10_000
FIGURES_MAX = 200_000

Key = tuple[date, str]


@dataclass(slots=True)
class DaySums:
    """Figures by day and model; `days` includes those without calls.

    `bought` counts the attempts in the figures, `unused_attempts` the failed ones among them;
    `unknown_attempts` may be billed, and their usage is unknown.
    """

    days: set[date] = field(default_factory=set)
    figures: dict[Key, dict[str, Fraction]] = field(default_factory=dict)
    bought: dict[Key, int] = field(default_factory=dict)
    unused_attempts: int = 0
    unknown_attempts: int = 0
    unknown_calls: int = 0
    unknown_models: dict[str, None] = field(default_factory=dict)

    def add(self, day: date, model: str, figures: Mapping[str, Fraction]) -> None:
        """Add figures to those of a model on a day."""
        found = self.figures.setdefault((day, model), {})
        for name, value in figures.items():
            found[name] = found.get(name, Fraction()) + value

    def total(self, member: str) -> Fraction:
        """Return the sum over all days and models."""
        return sum((one.get(member, Fraction()) for one in self.figures.values()), Fraction())


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = (
        "compare a provider's usage export (OpenAI, Anthropic, Google; JSON or CSV) with the call"
        " log; exit 1 and the days and models where they differ"
    )
    parser = add_command(nouns, "reconcile", text, reconcile)
    parser.add_argument("file", metavar="FILE", type=Path, help="the export, as it was downloaded")
    parser.add_argument(
        "--channel",
        action="append",
        default=[],
        metavar="ID",
        help="one whose calls it counts; may be repeated; default: all of its provider",
    )


def reconcile(options: Namespace) -> Result:
    config = read_config(options)
    try:
        with options.file.open(encoding="utf-8", newline="") as file:
            export = read_export(file)
            channels = _channels(config.registry, export.provider, options.channel)
            theirs, members = _theirs(export, _Names(config.registry, channels))
    except OSError as error:
        raise UsageFault(f"{options.file} cannot be read: {error.strerror}") from None
    except NoExport as error:
        raise UsageFault(f"{options.file} is no usage export: {error}") from None
    ours = asyncio.run(_ours(config, theirs.days, channels))
    return _result(options.file, export.provider, channels, theirs, ours, members)


def _channels(registry: Registry, provider: str, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the channels whose calls are counted. Raises UsageFault if there is none."""
    unknown = [one for one in wanted if one not in registry.channels]
    if unknown:
        raise UsageFault(f"there is no channel {', '.join(unknown)}")
    found = tuple(wanted) or tuple(
        one.id for one in registry.channels.values() if provider_of(one) in KINDS[provider]
    )
    if not found:
        raise UsageFault(f"no channel is of {provider}: name those that are with --channel")
    return found


_DATED = re.compile(r"(?:-latest|[-@]\d{4}-?\d\d-?\d\d|-\d{3})$", re.ASCII)


def _plain(name: str) -> str:
    """Return a model's name without date and prefix, in lower case."""
    return _DATED.sub("", name.lower().rpartition("/")[2])


# A version is written with a point or a hyphen; an earlier Claude's id has it before the name.
_POINT = re.compile(r"(?<=\d)-(?=\d)", re.ASCII)
_VERSION_FIRST = re.compile(r"claude-([\d.]+)-([a-z]+)", re.ASCII)


def _words(name: str) -> str:
    name = _VERSION_FIRST.sub(r"claude-\2-\1", _POINT.sub(".", name.lower()))
    return f" {' '.join(re.split(r'[^a-z0-9.]+', name))} "


class _Names:
    """The upstream names of these channels, and how a provider's texts map to them."""

    def __init__(self, registry: Registry, channels: Iterable[str]) -> None:
        self.of: dict[tuple[str, str], str] = {
            (model.id, bound.channel_id): bound.upstream_model or model.id
            for model in registry.models.values()
            for bound in model.bindings
            if bound.channel_id in channels
        }
        names = sorted(set(self.of.values()))
        self._exact = {name.lower(): name for name in names}
        self._plain = {_plain(name): name for name in reversed(names)}
        # The longest first, listed models included: "gemini 2.5 flash lite" is no "… flash".
        listed: dict[str, str | None] = {row.upstream: None for row in bundled().rows}
        known = {**listed, **{name: name for name in names}}
        by_words = {_words(_plain(one)): name for one, name in known.items()}
        self._words = sorted(by_words.items(), key=_length)
        self._known: dict[str, str | None] = {}

    def find(self, theirs: str) -> str | None:
        """Return the upstream name that equals or occurs in a text; None if there is none."""
        if theirs not in self._known:
            if len(self._known) >= MODELS_MAX:
                raise NoExport(f"it has more than {MODELS_MAX} names of models")
            self._known[theirs] = self._found(theirs)
        return self._known[theirs]

    def _found(self, theirs: str) -> str | None:
        lower = theirs.lower()
        found = self._exact.get(lower) or self._plain.get(_plain(lower))
        if found is None and " " in theirs:
            words = _words(theirs)
            found = next((name for text, name in self._words if text in words), None)
        return found


def _length(pair: tuple[str, str | None]) -> int:
    return -len(pair[0])


def _theirs(export: Export, names: _Names) -> tuple[DaySums, list[str]]:
    """Return the sums of an export, and the members that it states. Raises NoExport."""
    sums = DaySums()
    members: set[str] = set()
    for entry in export.entries:
        sums.days.add(entry.day)
        if entry.model is None:
            continue
        members |= entry.figures.keys()
        model = names.find(entry.model)
        if model is None:
            model = entry.model[:200]
            sums.unknown_models[model] = None
        sums.add(entry.day, model, entry.figures)
        if len(sums.days) > DAYS_MAX or len(sums.figures) > FIGURES_MAX:
            raise NoExport(f"it has more than {DAYS_MAX} days, or {FIGURES_MAX} figures")
    if not sums.days:
        raise NoExport("it has no usage of models")
    return sums, [one for one in MEMBERS if one in members]


async def _ours(config: Config, days: Iterable[date], channels: Iterable[str]) -> DaySums:
    names = _Names(config.registry, channels).of
    async with opened(config) as context:
        sums = DaySums(set(days))
        for day in sorted(sums.days):
            await _add_day(context.database, sums, day, names, frozenset(channels))
    return sums


async def _add_day(
    database: Database,
    sums: DaySums,
    day: date,
    names: Mapping[tuple[str, str], str],
    channels: frozenset[str],
) -> None:
    for (
        model,
        channel,
        calls,
        unused,
        unknown_attempts,
        unknown,
        *counts,
    ) in await database.fetch_all(SQL["bought"], {"day": day}):
        if channel in channels:
            name = names.get((model, channel), model)
            figures = dict(zip(MEMBERS, map(Fraction, counts), strict=True))
            sums.add(day, name, figures)
            sums.bought[day, name] = sums.bought.get((day, name), 0) + calls + unused
            sums.unused_attempts += unused
            sums.unknown_attempts += unknown_attempts
            sums.unknown_calls += unknown


def _differences(theirs: DaySums, ours: DaySums, members: Iterable[str]) -> list[dict[str, Any]]:
    """Return a record for each day, model and member that differs.

    Each attempt's cost is rounded to a nano-USD in the log, so costs may differ by one for each.
    """
    lines = []
    for day, model in sorted({*theirs.figures, *ours.figures}):
        mine, other = (one.figures.get((day, model), {}) for one in (ours, theirs))
        for member in members:
            left, right = mine.get(member, Fraction()), other.get(member, Fraction())
            rounded = ours.bought.get((day, model), 0) if member == "cost" else 0
            if abs(left - right) > rounded:
                lines.append(_line(member, left, right, day=str(day), model=model))
    return lines


def _line(member: str, ours: Fraction, theirs: Fraction, **key: str) -> dict[str, Any]:
    if member != "cost":
        counts = {"ours": int(ours), "theirs": int(theirs), "difference": int(ours - theirs)}
        return {**key, "what": f"{member}_tokens", **counts}
    usd = [format_usd(round(one)) for one in (ours, theirs, round(ours) - round(theirs))]
    return {**key, "what": "cost_usd", **dict(zip(COLUMNS[3:], usd, strict=True))}


def _result(
    file: Path,
    provider: str,
    channels: Iterable[str],
    theirs: DaySums,
    ours: DaySums,
    members: list[str],
) -> Result:
    lines = _differences(theirs, ours, members)
    totals = [_line(one, ours.total(one), theirs.total(one)) for one in members]
    record = {
        "file": str(file),
        "provider": provider,
        "channels": list(channels),
        "from": str(min(theirs.days)),
        "to": str(max(theirs.days)),
        "agrees": not lines,
        "differences": lines,
        "totals": totals,
        "unknown_models": list(theirs.unknown_models),
        "unknown_cost_calls": ours.unknown_calls,
        "unused_attempts": ours.unused_attempts,
        "unknown_attempts": ours.unknown_attempts,
    }
    head = f"{provider}, {record['from']} to {record['to']} (UTC), {', '.join(channels)}"
    parts = [
        head,
        table(lines, COLUMNS) if lines else "nothing differs",
        table(totals, COLUMNS[2:]),
    ]
    if theirs.unknown_models:
        parts.append(f"not of these channels: {', '.join(theirs.unknown_models)}")
    if ours.unused_attempts or ours.unknown_attempts:
        parts.append(
            f"failed attempts: {ours.unused_attempts} counted, {ours.unknown_attempts} that may be"
            " billed and of which nothing is known"
        )
    if ours.unknown_calls and "cost" in members:
        parts.append(f"{ours.unknown_calls} of our calls are of unknown cost")
    return Result(record, "\n\n".join(parts), EXIT_REFUSED if lines else 0)
