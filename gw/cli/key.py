"""`gw key`: make keys, list and reveal them, change, disable and revoke them (contract §1).

The options that say what a key may do are `key_options.py`; the table is `gw/keys/store.py`.
"""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from gw.accounts import store as accounts
from gw.agents import store as agents
from gw.cli.arguments import add_command, add_noun, identifier, label, sha256_hex, usd_or_more
from gw.cli.context import Context, with_database
from gw.cli.failures import UsageFault
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
    key_request_result,
    key_requests_result,
    key_result,
    key_views_result,
    new_key_result,
    revealed_result,
)
from gw.cli.output import Result
from gw.keys import requests, store
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

    text = "ask for a key of an agent, for somebody who may not make one"
    request_ = add_command(verbs, "request", text, with_database(request))
    request_.add_argument("--account", metavar="ID", type=identifier, required=True)
    request_.add_argument("--agent", metavar="ID", type=identifier, required=True)
    request_.add_argument("--name", metavar="NAME", type=label, required=True)
    request_.add_argument("--requested-by", metavar="WHO", type=label, required=True)
    request_.add_argument("--spend-cap-usd", metavar="X", type=usd_or_more, required=True)
    requests_ = add_command(
        verbs, "requests", "list the requests of an account", with_database(requests_of)
    )
    requests_.add_argument("--account", metavar="ID", type=identifier, required=True)
    text = "make the key that was asked for and print it, once"
    _with_id(add_command(verbs, "approve", text, with_database(approve)))
    _with_id(add_command(verbs, "reject", "turn a request down, for good", with_database(reject)))

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
    await _check_agent(context, options)
    secret = context.secret()
    issued = await issue_key(
        context.database,
        read_wish(options, context.config.registry),
        hasher=KeyHasher(secret),
        sealer=KeySealer(secret),
    )
    return new_key_result(await store.show(context.database, issued.id), issued.text)


async def import_hash_(context: Context, options: Namespace) -> Result:
    await _check_agent(context, options)
    wish = read_wish(options, context.config.registry)
    key_id = await import_hash(context.database, wish, sha256=options.hash)
    return await _changed(context, key_id)


async def request(context: Context, options: Namespace) -> Result:
    await _check_agent(context, options)
    made = await requests.ask(
        context.database,
        account_id=options.account,
        agent_id=options.agent,
        name=options.name,
        requested_by=options.requested_by,
        spend_cap_nano_usd=options.spend_cap_usd,
    )
    return key_request_result(made)


async def requests_of(context: Context, options: Namespace) -> Result:
    await accounts.show(context.database, options.account)
    return key_requests_result(await requests.list_of_account(context.database, options.account))


async def approve(context: Context, options: Namespace) -> Result:
    secret = context.secret()
    async with context.database.transaction() as session:
        issued = await requests.approve(
            session,
            options.id,
            viewer=Viewer.of_this_process(),
            hasher=KeyHasher(secret),
            sealer=KeySealer(secret),
        )
    return new_key_result(await store.show(context.database, issued.id), issued.text)


async def reject(context: Context, options: Namespace) -> Result:
    viewer = Viewer.of_this_process()
    async with context.database.transaction() as session:
        return key_request_result(await requests.reject(session, options.id, viewer=viewer))


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


async def _check_agent(context: Context, options: Namespace) -> None:
    """An agent that is named is one of the account. Raises UnknownAccount, UsageFault."""
    if options.agent is None:
        return
    await accounts.show(context.database, options.account)
    found = await agents.list_all(context.database, options.account)
    if options.agent not in [agent.id for agent in found]:
        raise UsageFault(f"the account {options.account} has no agent {options.agent}")


async def _changed(context: Context, key_id: str) -> Result:
    await context.in_force()
    return key_result(await store.show(context.database, key_id))


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=identifier, help="of the key, key_…")
