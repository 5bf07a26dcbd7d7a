"""`gw key`: create, list, reveal, change, disable and revoke keys (running.md: Commands).

The table is `gw/keys/store.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gw import accounts
from gw.admin import keys as admin
from gw.admin.pagination import PageQuery, page_of
from gw.cli import arguments, key_results
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import LineFault, LineFaults
from gw.cli.key_file import FAULTS_MAX, Row, read_rows
from gw.cli.output import Result
from gw.cli.settings import setting, switching
from gw.cursors import Position
from gw.keys import key_requests, store
from gw.keys.key import KEY, KeyRecord, KeyWish
from gw.keys.key_requests import REQUEST
from gw.keys.views import views_of
from gw.nouns.refused import Invalid, Refused

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
    arguments.add_verbs(nouns, "key", "make, change, revoke and look at API keys", _verbs())


def _verbs() -> Iterator[Verb]:
    create_parsers: list[arguments.Parser] = []

    def check_create(options: Namespace) -> None:
        """Check the options of a new key, or read those of many from their file."""
        if options.source is not None:
            options.rows = read_rows(options.source, options, check=check_key)
            return
        needed = [one for one in KEY.new if one.is_option and one.is_required]
        missing = [f"--{one.option}" for one in needed if getattr(options, one.dest) is None]
        if missing:
            create_parsers[0].error(f"the following arguments are required: {', '.join(missing)}")
        check_key(options)

    of_account = arguments.account_of("of the account, acct_…")
    with_id = arguments.id_of("key, key_…")
    yield Verb(
        "create",
        "make a key and print it, once; or many, of a file",
        create,
        [
            lambda parser: KEY.add_options(parser, is_needed=False),
            option("--from", dest="source", metavar="FILE", help=FROM_HELP),
            create_parsers.append,
        ],
        check_create,
    )
    yield Verb(
        "import-hash",
        "store a key of which only the hash is known; it works and cannot be revealed",
        import_hash_,
        [
            KEY.add_options,
            option(
                "--hash", metavar="HEX", type=arguments.sha256_hex, required=True, help=HASH_HELP
            ),
        ],
        check_key,
    )
    yield Verb(
        "request",
        "ask for a key of an agent, for somebody who may not make one",
        request,
        [REQUEST.add_options],
    )
    yield Verb("requests", "list the requests of an account", requests_of, [of_account])
    yield Verb("approve", "make the key that was asked for and print it, once", approve, [with_id])
    yield Verb("reject", "turn a request down, for good", reject, [with_id])
    yield Verb(
        "list",
        "list the keys of an account",
        list_,
        [
            of_account,
            option(
                "--limit",
                metavar="N",
                type=listed,
                default=LISTED_MAX,
                help=f"at most {LISTED_MAX}",
            ),
            option("--cursor", metavar="TEXT", help="`next_cursor` of the page before"),
        ],
    )
    yield Verb("reveal", "print the text of a key; who did and when is kept", reveal, [with_id])
    yield Verb("views", "list who has revealed a key, and when", views, [with_id])
    yield setting(
        KEY, admin.change, _result, with_id, "change what a key may do; what is not given stays"
    )
    yield from switching(
        admin.change,
        _result,
        with_id,
        enable="let a key work again",
        disable="refuse a key for now",
    )
    yield Verb("revoke", "refuse a key for good", revoke, [with_id])


def check_key(options: Namespace) -> None:
    """Raise Invalid for conflicting options."""
    admin.check_wish(KEY.of_options(options, None))


async def create(context: Context, options: Namespace) -> Result:
    if options.source is not None:
        return await _create_all(context, options)
    wish = KEY.of_options(options, context.config.registry)
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
            wishes.append(KEY.of_options(row.options, context.config.registry))
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
    wish = KEY.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        key = await admin.import_hash(session, actor, wish, sha256=options.hash)
    return await _changed(context, key)


async def request(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        made = await admin.request_key(session, actor, REQUEST.of_options(options, None))
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


async def revoke(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        key = await admin.revoke(session, actor, options.id)
    return await _changed(context, key)


async def _changed(context: Context, key: KeyRecord) -> Result:
    await context.in_force()
    return key_results.key_result(key)


def _result(context: Context, key: KeyRecord) -> Result:
    return key_results.key_result(key)
