"""`gw admin`: tokens of the admin API, and the audit trail.

The functions are in `gw/admin/tokens.py`; the API itself is `gw/api/admin/`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from gw.admin import audit, tokens
from gw.admin.audit import AuditQuery
from gw.admin.pagination import PAGE_MAX
from gw.admin.tokens import SCOPES
from gw.cli import arguments
from gw.cli.context import Context, with_database
from gw.cli.failures import UsageFault
from gw.cli.output import Result, sheet, table

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

TOKEN_COLUMNS = ("id", "name", "scope", "created_at", "created_by", "revoked_at")
TRAIL_COLUMNS = ("at", "actor_kind", "actor", "origin", "action", "object", "details")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = arguments.add_noun(nouns, "admin", "tokens of the admin API, and the audit trail")
    token = arguments.add_noun(verbs, "token", "make, list and revoke tokens of the admin API")
    text = "make a token and print it, once"
    create_ = arguments.add_command(token, "create", text, with_database(create))
    create_.add_argument(
        "--name", metavar="NAME", type=arguments.label, required=True, help="who uses it"
    )
    create_.add_argument("--scope", choices=SCOPES, required=True, help="read changes nothing")
    arguments.add_command(token, "list", "list all tokens", with_database(list_))
    revoke_ = arguments.add_command(
        token, "revoke", "refuse a token for good", with_database(revoke)
    )
    revoke_.add_argument("id", metavar="ID", type=arguments.identifier, help="of the token, adm_…")

    text = "list what was changed, by whom, when and from where, the newest first"
    audit_ = arguments.add_command(verbs, "audit", text, with_database(trail, check=check_trail))
    audit_.add_argument(
        "--account", metavar="ID", type=arguments.identifier, help="of this account"
    )
    audit_.add_argument(
        "--object", metavar="ID", type=arguments.identifier, help="of this key, agent, …"
    )
    audit_.add_argument(
        "--limit", metavar="N", type=arguments.count, default=PAGE_MAX, help=f"at most {PAGE_MAX}"
    )


async def create(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        token_id, text = await tokens.create(session, actor, options.name, options.scope)
    record = {"id": token_id, "token": text, "name": options.name, "scope": options.scope}
    return Result(record, f"{sheet(record)}\n\nThe token is not shown again.")


async def list_(context: Context, options: Namespace) -> Result:
    records = msgspec.to_builtins(await tokens.list_all(context.database))
    return Result({"tokens": records}, table(records, TOKEN_COLUMNS))


async def revoke(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        record = msgspec.to_builtins(await tokens.revoke(session, actor, options.id))
    return Result(record, sheet(record))


def check_trail(options: Namespace) -> None:
    if options.limit > PAGE_MAX:
        raise UsageFault(f"--limit: at most {PAGE_MAX}")


async def trail(context: Context, options: Namespace) -> Result:
    query = AuditQuery(limit=options.limit, account_id=options.account, object=options.object)
    found = await audit.trail(context.database, query)
    records: list[dict[str, Any]] = msgspec.to_builtins(found.data)
    return Result({"changes": records}, table(records, TRAIL_COLUMNS))
