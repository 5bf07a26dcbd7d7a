"""`gw matrix`: which protocol can call which model with this configuration, and how.

It only reads the file (reference 4.4). `gw/api/matrix.py` makes the matrix; this
file formats it.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from channels.families import CHAT_PROTOCOLS, PUBLIC_NAMES
from channels.kinds import KINDS
from channels.registry import BUILTIN_TOOLS, Registry
from gw.api.matrix import MatrixCell, MatrixRow, compatibility
from gw.cli.arguments import add_command
from gw.cli.context import read_config
from gw.cli.output import Result, sheet, table

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

NO_CHANNEL = "no channel"
_PROMISED = "promised for data"


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "show which protocol reaches which model: native, translated or no channel"
    parser = add_command(nouns, "matrix", text, matrix)
    parser.add_argument(
        "--markdown", action="store_true", help="as a table for a Markdown document"
    )


def matrix(options: Namespace) -> Result:
    config = read_config(options)
    rows = compatibility(config.registry, config.translations)
    kinds = _kinds(config.registry)
    record = {
        "file": str(config.source),
        "translations": sorted(config.translations),
        "rows": [_record(row) for row in rows],
        "kinds": kinds,
    }
    if options.markdown:
        return Result(record, markdown(rows))
    return Result(record, "\n\n".join([_text(rows), *map(sheet, kinds)]))


def _kinds(registry: Registry) -> list[dict[str, Any]]:
    """Return the channels that have a kind, with the kind's facts."""
    return [
        {
            "channel": channel.id,
            "kind": channel.kind,
            "protocols": sorted(channel.protocols),
            "auth": channel.auth,
            "max_tokens_param": channel.max_tokens_param,
            "quirks": KINDS[channel.kind].quirks or None,
            "source": KINDS[channel.kind].source,
            "read_on": KINDS[channel.kind].read_on,
        }
        for channel in registry.channels.values()
        if channel.kind
    ]


def markdown(rows: Sequence[MatrixRow]) -> str:
    """Format the matrix as a Markdown table."""
    promised = [_PROMISED] if _has_promises(rows) else []
    head = ["Models", *_titles(), "Built-in tools", *promised]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        models = ", ".join(f"`{model}`" for model in row.models)
        cells = [_served_text(cell, mark="`") for cell in row.cells]
        lines.append([models, *cells, _tools(row), *(promises_text(row) for _ in promised)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(rows: Sequence[MatrixRow]) -> str:
    """Format a table for a terminal; the models of each row, which may be many, follow it."""
    if not rows:
        return "no models"
    titles = _titles()
    lines = [
        {
            "row": number,
            **dict(zip(titles, map(_explained, row.cells), strict=True)),
            "built-in tools": _tools(row),
            **({_PROMISED: promises_text(row)} if _has_promises(rows) else {}),
        }
        for number, row in enumerate(rows, start=1)
    ]
    models = {str(number): list(row.models) for number, row in enumerate(rows, start=1)}
    return f"{table(lines, list(lines[0]))}\n\n{sheet(models)}"


def _titles() -> list[str]:
    return [PUBLIC_NAMES[protocol] for protocol in CHAT_PROTOCOLS]


def _explained(cell: MatrixCell) -> str:
    """Return a cell as text, with the disabled translations that could serve it."""
    words = _served_text(cell)
    return f"{words} ({' or '.join(cell.switched_off)} is off)" if cell.switched_off else words


def _served_text(cell: MatrixCell, mark: str = "") -> str:
    """Return a cell as text: translations by the value of their response header."""
    words = ["native"] if cell.is_passthrough else []
    words += [f"translated: {mark}{header}{mark}" for header in cell.headers]
    return ", else ".join(words) or NO_CHANNEL


def _tools(row: MatrixRow) -> str:
    """Return the row's built-in tools, each with its protocols unless it has all served ones."""
    served = [cell for cell in row.cells if cell.served != "no_channel"]
    names = []
    for tool in BUILTIN_TOOLS:
        where = [
            PUBLIC_NAMES[protocol]
            for protocol, cell in zip(CHAT_PROTOCOLS, row.cells, strict=True)
            if tool in cell.tools
        ]
        if where:
            names.append(tool if len(where) == len(served) else f"{tool} ({', '.join(where)})")
    return ", ".join(names) or "none"


def _has_promises(rows: Sequence[MatrixRow]) -> bool:
    return any(any(row.promises) for row in rows)


def promises_text(row: MatrixRow) -> str:
    """Return what the row's channels promise for data, one after the other."""
    return ", or ".join(str(one) or "nothing" for one in row.promises) or "nothing"


def _record(row: MatrixRow) -> dict[str, Any]:
    return {
        "models": list(row.models),
        "data": [str(one) for one in row.promises],
        "protocols": {
            PUBLIC_NAMES[protocol]: {
                "served": cell.served,
                "translations": list(cell.headers),
                "switched_off": list(cell.switched_off),
                "tools": list(cell.tools),
            }
            for protocol, cell in zip(CHAT_PROTOCOLS, row.cells, strict=True)
        },
    }
