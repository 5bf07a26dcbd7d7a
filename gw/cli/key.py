"""`gw key`: create, list, reveal, change, disable and revoke keys (contract §1).

The table is `gw/keys/store.py`.
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from actors.wallet.pricing import format_usd
from channels.registry import Registry
from gw import accounts
from gw.admin import keys as admin
from gw.admin.pagination import Page, PageQuery, Position, page_of
from gw.admin.refusals import Invalid, Refused
from gw.cli.arguments import (
    Context,
    LineFault,
    LineFaults,
    Parser,
    Result,
    UsageFault,
    add_command,
    add_model_options,
    add_noun,
    allowed_models,
    count,
    identifier,
    instant,
    label,
    names_models,
    or_none,
    rfc3339,
    sha256_hex,
    sheet,
    shown_models,
    table,
    usd_or_more,
    user_name,
    with_database,
)
from gw.cli.key_file import FAULTS_MAX, Row, read_rows
from gw.keys import key_requests, store
from gw.keys.issue import KeyWish
from gw.keys.key_requests import KeyRequest
from gw.keys.principal import KEY_KINDS, OWNER
from gw.keys.store import KeyChanges, KeyRecord
from gw.keys.views import KeyTextView, views_of

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


# The options of a key's permissions, of `gw key create`, `import-hash` and `set`.
#
# They are converted to the types of `gw/keys`, models by the registry of the configuration. `set`
# keeps the settings not given (contract §7: `--allow` replaces the whole list).

DEFAULT_KIND = "console"
KIND_HELP = "what it is for: agent speaks for an agent, the others are words in lists"


EXPIRES_HELP = "refuse it from then on (default: never)"
LOGS_HELP = "let it read the logs of the whole account"
CAP_HELP = "what it may spend in all (default: any)"


def add_create_options(parser: Parser, *, is_needed: bool = True) -> None:
    """Add the account, the name and every setting of a new key."""
    parser.add_argument(
        "--account", metavar="ID", type=identifier, required=is_needed, help="whose key it is"
    )
    parser.add_argument(
        "--name", metavar="NAME", type=label, required=is_needed, help="as lists show it"
    )
    parser.add_argument("--kind", choices=KEY_KINDS, default=DEFAULT_KIND, help=KIND_HELP)
    parser.add_argument(
        "--user", metavar="NAME", type=user_name, default=OWNER, help="of the account; for good"
    )
    parser.add_argument(
        "--agent", metavar="ID", type=identifier, help="which agent a key of kind agent speaks for"
    )
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--allow", metavar="MODEL", action="append", help="may be repeated")
    models.add_argument("--allow-none", action="store_true", help="allow no model at all")
    parser.set_defaults(allow_all=False)
    parser.add_argument("--expires", metavar="RFC3339", type=instant, help=EXPIRES_HELP)
    parser.add_argument("--spend-cap-usd", metavar="X", type=usd_or_more, help=CAP_HELP)
    parser.add_argument("--account-logs", action="store_true", help=LOGS_HELP)


def add_set_options(parser: Parser) -> None:
    """Add the options of settings; one that is not given sets no attribute."""
    absent = SUPPRESS
    parser.add_argument(
        "--name", metavar="NAME", type=label, default=absent, help="as lists show it"
    )
    parser.add_argument("--kind", choices=KEY_KINDS, default=absent, help=KIND_HELP)
    add_model_options(parser)
    parser.add_argument(
        "--expires",
        metavar="RFC3339|none",
        type=or_none(instant),
        default=absent,
        help="refuse it from then on, or never",
    )
    parser.add_argument(
        "--spend-cap-usd",
        metavar="X|none",
        type=or_none(usd_or_more),
        default=absent,
        help="what it may spend in all, with what it has spent",
    )
    logs = parser.add_mutually_exclusive_group()
    logs.add_argument("--account-logs", action="store_true", default=absent, help=LOGS_HELP)
    logs.add_argument(
        "--no-account-logs",
        dest="account_logs",
        action="store_false",
        default=absent,
        help="let it read the logs of its own calls alone",
    )


def check_create(options: Namespace) -> None:
    """Raise Invalid for conflicting options."""
    # The registry knows the models; here it only matters that there is a list.
    models: list[str] | None = [] if options.allow or options.allow_none else None
    admin.check_wish(
        KeyWish(
            account_id=options.account,
            name=options.name,
            kind=options.kind,
            agent_id=options.agent,
            allowed_models=models,
            account_logs=options.account_logs,
        )
    )


def read_wish(options: Namespace, registry: Registry) -> KeyWish:
    """Return the members of a new key. Raises CommandRefused for an unknown model."""
    return KeyWish(
        account_id=options.account,
        name=options.name,
        kind=options.kind,
        agent_id=options.agent,
        allowed_models=allowed_models(options, registry),
        expires_at=options.expires,
        account_logs=options.account_logs,
        spend_cap_nano_usd=options.spend_cap_usd,
        user=options.user,
    )


def check_set(options: Namespace) -> None:
    """Raise UsageFault without any option."""
    names = ("name", "kind", "expires", "spend_cap_usd", "account_logs")
    if not names_models(options) and not any(name in options for name in names):
        raise UsageFault("nothing to set: name at least one setting")


def read_changes(options: Namespace, registry: Registry) -> KeyChanges:
    """Return the changes of a key. Raises Refused for an unknown model."""
    changes = KeyChanges()
    if "name" in options:
        changes["name"] = options.name
    if "kind" in options:
        changes["kind"] = options.kind
    if names_models(options):
        changes["allowed_models"] = allowed_models(options, registry)
    if "expires" in options:
        changes["expires_at"] = options.expires
    if "spend_cap_usd" in options:
        changes["spend_cap_nano_usd"] = options.spend_cap_usd
    if "account_logs" in options:
        changes["account_logs"] = options.account_logs
    return changes


# The output of keys: as a record, in a list, and with the text on request.
#
# Only `create` and `reveal` print the text of a key (spec: API key).

REQUEST_COLUMNS = ("id", "agent_id", "name", "requested_by", "spend_cap_usd", "status")
VIEW_COLUMNS = ("viewed_at", "os_user", "host")
# Keys in one page of the list.
LISTED_MAX = 1000
COLUMNS = ("id", "name", "kind", "prefix", "status", "models", "expires_at", "last_used_at")


def key_result(key: KeyRecord) -> Result:
    """Return one key without its text."""
    record = key_record(key)
    return Result(record, _sheet(record))


def new_key_result(key: KeyRecord, text: str) -> Result:
    """Return a new key with its text."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return Result(record, f"{_sheet(record)}\n\nThe key is not shown again unless it is revealed.")


def new_keys_result(keys: Sequence[tuple[KeyRecord, str]]) -> Result:
    """Return new keys with their texts, in the order of their file."""
    records = [{"id": key.id, "key": text, **key_record(key)} for key, text in keys]
    return Result({"keys": records}, table(records, ("id", "account_id", "name", "key")))


def revealed_result(key: KeyRecord, text: str) -> Result:
    """Return a revealed key with its text."""
    record = {"id": key.id, "key": text, **key_record(key)}
    return Result(record, _sheet(record))


def key_list_result(page: Page[KeyRecord]) -> Result:
    """Return a page of the keys of an account."""
    records = [key_record(key) for key in page.data]
    rows = [{**one, "models": shown_models(one["allowed_models"])} for one in records]
    record: dict[str, Any] = {"keys": records}
    if page.next_cursor is None:
        return Result(record, table(rows, COLUMNS))
    text = f"{table(rows, COLUMNS)}\n\nmore: --cursor {page.next_cursor}"
    return Result({**record, "next_cursor": page.next_cursor}, text)


def key_views_result(views: Sequence[KeyTextView]) -> Result:
    """Return the views of a key's text, oldest first."""
    records = [
        {"viewed_at": rfc3339(view.viewed_at), "os_user": view.os_user, "host": view.host}
        for view in views
    ]
    text = table(records, VIEW_COLUMNS) if records else "nobody has revealed this key"
    return Result({"views": records}, text)


def key_record(key: KeyRecord) -> dict[str, Any]:
    """Return a key for `--json`; amounts are decimal strings, times RFC 3339 or null."""
    record: dict[str, Any] = msgspec.to_builtins(admin.view(key))
    return record


def key_request_result(request: KeyRequest) -> Result:
    """Return a decided request for a key; of a pending one only its id."""
    record = key_request_record(request)
    shown = {name: record[name] for name in ("id", "status")}
    return Result(shown, sheet(record))


def key_requests_result(requests: Sequence[KeyRequest]) -> Result:
    """Return the requests of an account."""
    records = [key_request_record(request) for request in requests]
    return Result({"requests": records}, table(records, REQUEST_COLUMNS))


def key_request_record(request: KeyRequest) -> dict[str, Any]:
    """Return a request for a key for `--json`."""
    return {
        "id": request.id,
        "account_id": request.account_id,
        "agent_id": request.agent_id,
        "name": request.name,
        "requested_by": request.requested_by,
        "spend_cap_usd": format_usd(request.spend_cap_nano_usd),
        "status": request.status,
        "created_at": rfc3339(request.created_at),
        "decided_at": rfc3339(request.decided_at),
        "decided_by": request.decided_by,
    }


def _sheet(record: Mapping[str, Any]) -> str:
    return sheet({**record, "allowed_models": shown_models(record["allowed_models"])})


FROM_HELP = (
    "a key a row, with these options as the columns of CSV or the members of JSON lines; options"
    " beside it hold for rows that name none; - is the standard input"
)
HASH_HELP = "SHA-256 of the whole key text (sk-platform-…), in hex, without any salt"


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "key", "make, change, revoke and look at API keys")

    _add_create(verbs)

    text = "store a key of which only the hash is known; it works and cannot be revealed"
    import_ = add_command(
        verbs, "import-hash", text, with_database(import_hash_, check=check_create)
    )
    add_create_options(import_)
    import_.add_argument("--hash", metavar="HEX", type=sha256_hex, required=True, help=HASH_HELP)

    text = "ask for a key of an agent, for somebody who may not make one"
    request_ = add_command(verbs, "request", text, with_database(request))
    _of_account(request_)
    request_.add_argument(
        "--agent", metavar="ID", type=identifier, required=True, help="which it speaks for"
    )
    request_.add_argument(
        "--name", metavar="NAME", type=label, required=True, help="as lists show it"
    )
    request_.add_argument(
        "--requested-by", metavar="WHO", type=label, required=True, help="as the approver sees it"
    )
    request_.add_argument(
        "--spend-cap-usd",
        metavar="X",
        type=usd_or_more,
        required=True,
        help="what it may spend in all",
    )
    requests_ = add_command(
        verbs, "requests", "list the requests of an account", with_database(requests_of)
    )
    _of_account(requests_)
    text = "make the key that was asked for and print it, once"
    _with_id(add_command(verbs, "approve", text, with_database(approve)))
    _with_id(add_command(verbs, "reject", "turn a request down, for good", with_database(reject)))

    list_parser = add_command(verbs, "list", "list the keys of an account", with_database(list_))
    _of_account(list_parser)
    list_parser.add_argument(
        "--limit", metavar="N", type=listed, default=LISTED_MAX, help=f"at most {LISTED_MAX}"
    )
    list_parser.add_argument("--cursor", metavar="TEXT", help="`next_cursor` of the page before")

    text = "print the text of a key; who did and when is kept"
    _with_id(add_command(verbs, "reveal", text, with_database(reveal)))
    text = "list who has revealed a key, and when"
    _with_id(add_command(verbs, "views", text, with_database(views)))

    text = "change what a key may do; what is not given stays"
    set_parser = add_command(verbs, "set", text, with_database(set_, check=check_set))
    _with_id(set_parser)
    add_set_options(set_parser)

    _with_id(add_command(verbs, "enable", "let a key work again", with_database(enable)))
    _with_id(add_command(verbs, "disable", "refuse a key for now", with_database(disable)))
    _with_id(add_command(verbs, "revoke", "refuse a key for good", with_database(revoke)))


def _add_create(verbs: Subparsers) -> None:
    rows = Parser(prog="gw key create")
    add_create_options(rows, is_needed=False)

    def check(options: Namespace) -> None:
        if options.source is not None:
            options.rows = read_rows(options.source, rows, options, check=check_create)
            return
        missing = [f"--{name}" for name in ("account", "name") if getattr(options, name) is None]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        check_create(options)

    text = "make a key and print it, once; or many, of a file"
    parser = add_command(verbs, "create", text, with_database(create, check=check))
    add_create_options(parser, is_needed=False)
    parser.add_argument("--from", dest="source", metavar="FILE", help=FROM_HELP)


async def create(context: Context, options: Namespace) -> Result:
    if options.source is not None:
        return await _create_all(context, options)
    wish = read_wish(options, context.config.registry)
    async with context.change() as (session, actor):
        return new_key_result(*await admin.create(session, actor, wish, context.secret()))


async def _create_all(context: Context, options: Namespace) -> Result:
    """Make the keys of a file, in one transaction: all, or none."""
    rows: list[Row] = options.rows
    wishes: list[KeyWish] = []
    faults: list[LineFault] = []
    for row in rows:
        try:
            wishes.append(read_wish(row.options, context.config.registry))
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
    return new_keys_result(shown)


async def import_hash_(context: Context, options: Namespace) -> Result:
    wish = read_wish(options, context.config.registry)
    async with context.change() as (session, actor):
        key = await admin.import_hash(session, actor, wish, sha256=options.hash)
    return await _changed(context, key)


async def request(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        made = await admin.ask(
            session,
            actor,
            account_id=options.account,
            agent_id=options.agent,
            name=options.name,
            requested_by=options.requested_by,
            spend_cap_nano_usd=options.spend_cap_usd,
        )
    return key_request_result(made)


async def requests_of(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    return key_requests_result(await key_requests.list_requests(context.database, options.account))


async def approve(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return new_key_result(*await admin.approve(session, actor, options.id, context.secret()))


async def reject(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return key_request_result(await admin.reject(session, actor, options.id))


def listed(text: str) -> int:
    """Read the length of a page of keys."""
    return min(count(text), LISTED_MAX)


async def list_(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    position = PageQuery(cursor=options.cursor).position(Position)
    found = await store.list_of_account(
        context.database,
        options.account,
        limit=options.limit + 1,
        after=None if position is None else (position.at, position.id),
    )
    return key_list_result(page_of(found, options.limit, lambda k: Position(k.created_at, k.id)))


async def reveal(context: Context, options: Namespace) -> Result:
    async with context.change() as (session, actor):
        return revealed_result(*await admin.reveal(session, actor, options.id, context.secret()))


async def views(context: Context, options: Namespace) -> Result:
    await store.show(context.database, options.id)
    return key_views_result(await views_of(context.database, options.id))


async def set_(context: Context, options: Namespace) -> Result:
    return await _change(context, options, read_changes(options, context.config.registry))


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
    return key_result(key)


def _of_account(parser: Parser) -> None:
    parser.add_argument(
        "--account", metavar="ID", type=identifier, required=True, help="of the account, acct_…"
    )


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=identifier, help="of the key, key_…")
