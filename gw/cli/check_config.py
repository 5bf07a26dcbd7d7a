"""`gw check-config`: read the configuration and say every fault at once (contract §1, §2).

Nothing is made, and nothing opened but the certificate. The faults and their wording are
`gw/config/faults.py`. What is allowed and hardly meant is told, too, and the exit code stays 0.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gw.cli.arguments import add_command
from gw.cli.context import read_config
from gw.cli.output import Result, sheet
from gw.config.certificate import server_context
from gw.config.faults import caution_records

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    text = "read the configuration; exit 2 and every fault with its place when there is one"
    add_command(nouns, "check-config", text, check_config)


def check_config(options: Namespace) -> Result:
    config = read_config(options)
    server_context(config)
    record = {
        "ok": True,
        "file": str(config.source),
        "channels": len(config.registry.channels),
        "models": len(config.registry.models),
    }
    text = [sheet(record), *(f"warning: {caution}" for caution in config.cautions)]
    return Result(record | {"warnings": caution_records(config.cautions)}, "\n".join(text))
