"""`gw key`: make keys, list and reveal them, change, disable and revoke them (contract §1).

The options that say what a key may do are `key_options.py`; the table is `gw/keys/store.py`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gw.accounts import store as accounts
from gw.cli.arguments import add_command, add_noun, identifier, sha256_hex
from gw.cli.context import Context, with_database
from gw.cli.key_options import (
    add_create_options,
    add_set_options,
    check_create,
    check_set,
    read_changes,
    read_wish,
)
from gw.cli.key_records import (
    key_list_result,
    key_result,
    key_views_result,
    new_key_result,
    revealed_result,
)
from gw.cli.output import Result
from gw.keys import store
from gw.keys.issue import import_hash, issue_key, reveal_key
from gw.keys.secret import KeyHasher, KeySealer
from gw.keys.views import Viewer, views_of

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers

HASH_HELP = "SHA-256 of the whole key text (sk-platform-…), in hex, without any salt"


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "key", "make, change, revoke and look at API keys")

    text = "make a key and print it, once"
    create_ = with_database(create, check=check_create)
    add_create_options(add_command(verbs, "create", text, create_))

    text = "store a key of which only the hash is known; it works and cannot be revealed"
    import_ = add_command(
        verbs, "import-hash", text, with_database(import_hash_, check=check_create)
    )
    add_create_options(import_)
    import_.add_argument("--hash", metavar="HEX", type=sha256_hex, required=True, help=HASH_HELP)

    list_parser = add_command(verbs, "list", "list the keys of an account", with_database(list_))
    list_parser.add_argument("--account", metavar="ID", type=identifier, required=True)

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


async def create(context: Context, options: Namespace) -> Result:
    secret = context.secret()
    issued = await issue_key(
        context.database,
        read_wish(options, context.config.registry),
        hasher=KeyHasher(secret),
        sealer=KeySealer(secret),
    )
    return new_key_result(await store.show(context.database, issued.id), issued.text)


async def import_hash_(context: Context, options: Namespace) -> Result:
    wish = read_wish(options, context.config.registry)
    key_id = await import_hash(context.database, wish, sha256=options.hash)
    return await _changed(context, key_id)


async def list_(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    return key_list_result(await store.list_of_account(context.database, options.account))


async def reveal(context: Context, options: Namespace) -> Result:
    sealer, viewer = KeySealer(context.secret()), Viewer.of_this_process()
    text = await reveal_key(context.database, options.id, sealer, viewer=viewer)
    return revealed_result(await store.show(context.database, options.id), text)


async def views(context: Context, options: Namespace) -> Result:
    await store.show(context.database, options.id)
    return key_views_result(await views_of(context.database, options.id))


async def set_(context: Context, options: Namespace) -> Result:
    record = await store.show(context.database, options.id)
    changes = read_changes(options, record, context.config.registry)
    await store.change(context.database, options.id, changes)
    return await _changed(context, options.id)


async def enable(context: Context, options: Namespace) -> Result:
    await store.change(context.database, options.id, {"enabled": True})
    return await _changed(context, options.id)


async def disable(context: Context, options: Namespace) -> Result:
    await store.change(context.database, options.id, {"enabled": False})
    return await _changed(context, options.id)


async def revoke(context: Context, options: Namespace) -> Result:
    await store.revoke(context.database, options.id)
    return await _changed(context, options.id)


async def _changed(context: Context, key_id: str) -> Result:
    await context.in_force()
    return key_result(await store.show(context.database, key_id))


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=identifier, help="of the key, key_…")
