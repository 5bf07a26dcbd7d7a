"""`gw openapi`: the reference of the public API, as `GET /openapi.json` serves it.

`ops/reference/openapi.json` is its output.
"""

from __future__ import annotations

import json
from argparse import Namespace
from typing import TYPE_CHECKING

from gw.app import description
from gw.cli.arguments import add_command
from gw.cli.output import Result

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    add_command(nouns, "openapi", "print the reference of the public API, in OpenAPI 3.1", openapi)


def openapi(options: Namespace) -> Result:
    document = json.loads(description().body)
    return Result(document, json.dumps(document, indent=1))
