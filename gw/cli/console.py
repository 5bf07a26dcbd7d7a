"""`gw console`: links that sign people in to the console."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gw.admin.audit import Actor
from gw.cli.arguments import add_command, add_noun, identifier
from gw.cli.context import Context, with_database
from gw.cli.failures import CommandRefused
from gw.cli.output import Result, sheet
from gw.console import sessions

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "console", "sign people in to the console")
    text = "print a link that signs in once, for an operator or for the owner of an account"
    parser = add_command(verbs, "link", text, with_database(link))
    whom = parser.add_mutually_exclusive_group(required=True)
    whom.add_argument("--operator", action="store_true", help="who sees and changes everything")
    whom.add_argument("--account", metavar="ID", type=identifier, help="whose owner sees it alone")


async def link(context: Context, options: Namespace) -> Result:
    address = context.config.console_listen
    if address is None:
        raise CommandRefused(
            "there is no console: set console_listen, and restart the gateway", "no_console"
        )
    if not address.port and not context.config.console_url:
        raise CommandRefused(
            "console_listen takes any free port: give it a number, or set console_url",
            "console_port_unknown",
        )
    async with context.database.transaction() as transaction:
        token = await sessions.make_link(
            transaction, Actor.of_this_process(), account_id=options.account
        )
    url = sessions.link_url(sessions.base_url(context.config, address), token)
    record = {"url": url, "account": options.account, "expires_in_seconds": sessions.LINK_SECONDS}
    return Result(record, f"{sheet(record)}\n\nThe link works once.")
