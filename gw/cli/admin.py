"""`gw admin`: tokens of the admin API, and the audit trail.

The functions are in `gw/admin/tokens.py`; the API itself is `gw/api/admin/`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from gw.admin import audit, tokens
from gw.admin.audit import AuditQuery
from gw.admin.pagination import PAGE_MAX
from gw.admin.tokens import TOKEN
from gw.cli import arguments
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.output import Result, sheet, table

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers

TOKEN_COLUMNS = ("id", "name", "scope", "created_at", "created_by", "revoked_at")
TRAIL_COLUMNS = ("at", "actor_kind", "actor", "origin", "action", "object", "details")


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = arguments.add_noun(nouns, "admin", "tokens of the admin API, and the audit trail")
    text = "make, list and revoke tokens of the admin API"
    arguments.add_verbs(verbs, "token", text, _token_verbs())
    text = "list what was changed, by whom, when and from where, the newest first"
    of_object = option(
        "--object", metavar="ID", type=arguments.identifier, help="of this key, agent, …"
    )
    of_account = arguments.account_of("of this account", required=False)
    options = [of_account, of_object, arguments.limit(PAGE_MAX)]
    arguments.add_verb(verbs, Verb("audit", text, trail, options, check_trail))


def _token_verbs() -> Iterator[Verb]:
    yield Verb("create", "make a token and print it, once", create, [TOKEN.add_options])
    yield Verb("list", "list all tokens", list_)
    yield Verb("revoke", "refuse a token for good", revoke, [arguments.id_of("token, adm_…")])


async def create(context: Context, options: Namespace) -> Result:
    new = TOKEN.of_options(options, None)
    async with context.change() as (session, actor):
        token_id, text = await tokens.create(session, actor, new)
    record = {"id": token_id, "token": text, "name": new.name, "scope": new.scope}
    return Result(record, f"{sheet(record)}\n\nThe token is not shown again.")


async def list_(context: Context, options: Namespace) -> Result:
    records = [TOKEN.record(one) for one in await tokens.list_all(context.database)]
    return Result({"tokens": records}, table(records, TOKEN_COLUMNS))


async def revoke(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        record = TOKEN.record(await tokens.revoke(session, actor, options.id))
    return Result(record, sheet(record))


def check_trail(options: Namespace) -> None:
    if options.limit > PAGE_MAX:
        raise UsageFault(f"--limit: at most {PAGE_MAX}")


async def trail(context: Context, options: Namespace) -> Result:
    query = AuditQuery(limit=options.limit, account_id=options.account, object=options.object)
    found = await audit.trail(context.database, query)
    records: list[dict[str, Any]] = msgspec.to_builtins(found.data)
    return Result({"changes": records}, table(records, TRAIL_COLUMNS))
