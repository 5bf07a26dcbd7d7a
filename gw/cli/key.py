"""`gw key`: create, list, reveal, change, disable and revoke keys (contract §1).

The table is `gw/keys/store.py`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gw import accounts
from gw.admin import keys as admin
from gw.admin.pagination import PageQuery, page_of
from gw.admin.refusals import Invalid, Refused
from gw.cli import arguments, key_options, key_results
from gw.cli.context import Context, with_database
from gw.cli.failures import LineFault, LineFaults
from gw.cli.key_file import FAULTS_MAX, Row, read_rows
from gw.cli.output import Result
from gw.cursors import Position
from gw.keys import key_requests, store
from gw.keys.issue import KeyWish
from gw.keys.store import KeyChanges, KeyRecord
from gw.keys.views import views_of

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


# Keys in one page of the list.
LISTED_MAX = 1000


FROM_HELP = (
    "a key a row, with these options as the columns of CSV or the members of JSON lines; options"
    " beside it hold for rows that name none; - is the standard input"
)
HASH_HELP = "SHA-256 of the whole key text (sk-platform-…), in hex, without any salt"


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = arguments.add_noun(nouns, "key", "make, change, revoke and look at API keys")

    _add_create(verbs)

    text = "store a key of which only the hash is known; it works and cannot be revealed"
    import_ = arguments.add_command(
        verbs, "import-hash", text, with_database(import_hash_, check=key_options.check_create)
    )
    key_options.add_create_options(import_)
    import_.add_argument(
        "--hash", metavar="HEX", type=arguments.sha256_hex, required=True, help=HASH_HELP
    )

    text = "ask for a key of an agent, for somebody who may not make one"
    request_ = arguments.add_command(verbs, "request", text, with_database(request))
    _of_account(request_)
    request_.add_argument(
        "--agent",
        metavar="ID",
        type=arguments.identifier,
        required=True,
        help="which it speaks for",
    )
    request_.add_argument(
        "--name", metavar="NAME", type=arguments.label, required=True, help="as lists show it"
    )
    request_.add_argument(
        "--requested-by",
        metavar="WHO",
        type=arguments.label,
        required=True,
        help="as the approver sees it",
    )
    request_.add_argument(
        "--spend-cap-usd",
        metavar="X",
        type=arguments.usd_or_more,
        required=True,
        help="what it may spend in all",
    )
    requests_ = arguments.add_command(
        verbs, "requests", "list the requests of an account", with_database(requests_of)
    )
    _of_account(requests_)
    text = "make the key that was asked for and print it, once"
    _with_id(arguments.add_command(verbs, "approve", text, with_database(approve)))
    _with_id(
        arguments.add_command(
            verbs, "reject", "turn a request down, for good", with_database(reject)
        )
    )

    list_parser = arguments.add_command(
        verbs, "list", "list the keys of an account", with_database(list_)
    )
    _of_account(list_parser)
    list_parser.add_argument(
        "--limit", metavar="N", type=listed, default=LISTED_MAX, help=f"at most {LISTED_MAX}"
    )
    list_parser.add_argument("--cursor", metavar="TEXT", help="`next_cursor` of the page before")

    text = "print the text of a key; who did and when is kept"
    _with_id(arguments.add_command(verbs, "reveal", text, with_database(reveal)))
    text = "list who has revealed a key, and when"
    _with_id(arguments.add_command(verbs, "views", text, with_database(views)))

    text = "change what a key may do; what is not given stays"
    set_parser = arguments.add_command(
        verbs, "set", text, with_database(set_, check=key_options.check_set)
    )
    _with_id(set_parser)
    key_options.add_set_options(set_parser)

    _with_id(arguments.add_command(verbs, "enable", "let a key work again", with_database(enable)))
    _with_id(
        arguments.add_command(verbs, "disable", "refuse a key for now", with_database(disable))
    )
    _with_id(arguments.add_command(verbs, "revoke", "refuse a key for good", with_database(revoke)))


def _add_create(verbs: Subparsers) -> None:
    rows = arguments.Parser(prog="gw key create")
    key_options.add_create_options(rows, is_needed=False)

    def check(options: Namespace) -> None:
        if options.source is not None:
            options.rows = read_rows(options.source, rows, options, check=key_options.check_create)
            return
        missing = [f"--{name}" for name in ("account", "name") if getattr(options, name) is None]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        key_options.check_create(options)

    text = "make a key and print it, once; or many, of a file"
    parser = arguments.add_command(verbs, "create", text, with_database(create, check=check))
    key_options.add_create_options(parser, is_needed=False)
    parser.add_argument("--from", dest="source", metavar="FILE", help=FROM_HELP)


async def create(context: Context, options: Namespace) -> Result:
    if options.source is not None:
        return await _create_all(context, options)
    wish = key_options.read_wish(options, context.config.registry)
    async with context.change() as (session, actor):
        return key_results.new_key_result(
            *await admin.create(session, actor, wish, context.secret())
        )


async def _create_all(context: Context, options: Namespace) -> Result:
    """Make the keys of a file, in one transaction: all, or none."""
    rows: list[Row] = options.rows
    wishes: list[KeyWish] = []
    faults: list[LineFault] = []
    for row in rows:
        try:
            wishes.append(key_options.read_wish(row.options, context.config.registry))
        except (Invalid, Refused) as error:
            faults.append(LineFault(row.line, str(error)))
    if faults:
        raise LineFaults(options.source, faults[:FAULTS_MAX], len(faults))

    def place(index: int) -> str:
        return f"{options.source}:{rows[index].line}"

    secret = context.secret()
    async with context.change() as (session, actor):
        made = await admin.create_all(session, actor, wishes, secret, place=place)
        shown = await admin.with_texts(session, [key.id for key in made], secret)
    return key_results.new_keys_result(shown)


async def import_hash_(context: Context, options: Namespace) -> Result:
    wish = key_options.read_wish(options, context.config.registry)
    async with context.change() as (session, actor):
        key = await admin.import_hash(session, actor, wish, sha256=options.hash)
    return await _changed(context, key)


async def request(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        made = await admin.request_key(
            session,
            actor,
            account_id=options.account,
            agent_id=options.agent,
            name=options.name,
            requested_by=options.requested_by,
            spend_cap_nano_usd=options.spend_cap_usd,
        )
    return key_results.key_request_result(made)


async def requests_of(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    return key_results.key_requests_result(
        await key_requests.list_requests(context.database, options.account)
    )


async def approve(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return key_results.new_key_result(
            *await admin.approve(session, actor, options.id, context.secret())
        )


async def reject(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return key_results.key_request_result(await admin.reject(session, actor, options.id))


def listed(text: str) -> int:
    """Read the length of a page of keys."""
    return min(arguments.count(text), LISTED_MAX)


async def list_(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    position = PageQuery(cursor=options.cursor).position(Position)
    found = await store.list_of_account(
        context.database,
        options.account,
        limit=options.limit + 1,
        after=None if position is None else (position.at, position.id),
    )
    return key_results.key_list_result(
        page_of(found, options.limit, lambda k: Position(k.created_at, k.id))
    )


async def reveal(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return key_results.revealed_result(
            *await admin.reveal(session, actor, options.id, context.secret())
        )


async def views(context: Context, options: Namespace) -> Result:
    await store.show(context.database, options.id)
    return key_results.key_views_result(await views_of(context.database, options.id))


async def set_(context: Context, options: Namespace) -> Result:
    return await _change(
        context, options, key_options.read_changes(options, context.config.registry)
    )


async def enable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": True})


async def disable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": False})


async def revoke(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        key = await admin.revoke(session, actor, options.id)
    return await _changed(context, key)


async def _change(context: Context, options: Namespace, changes: KeyChanges) -> Result:
    async with context.change() as (session, actor):
        key = await admin.change(session, actor, options.id, changes)
    return await _changed(context, key)


async def _changed(context: Context, key: KeyRecord) -> Result:
    await context.in_force()
    return key_results.key_result(key)


def _of_account(parser: arguments.Parser) -> None:
    parser.add_argument(
        "--account",
        metavar="ID",
        type=arguments.identifier,
        required=True,
        help="of the account, acct_…",
    )


def _with_id(parser: arguments.Parser) -> None:
    parser.add_argument("id", metavar="ID", type=arguments.identifier, help="of the key, key_…")
