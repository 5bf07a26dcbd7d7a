"""`gw agent`: create, change, enable and disable agents, and report their cost.

The table is `gw/agents/table.py`.
"""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gw import accounts as accounts
from gw.admin import agents as admin
from gw.admin.values import read_chat_model
from gw.agents import table
from gw.agents.table import AgentChanges, AgentRecord
from gw.api.logs.agent_usage import read_usage
from gw.cli import agent_options
from gw.cli.agent_results import agent_list_result, agent_result, usage_result
from gw.cli.arguments import add_command, add_noun, identifier
from gw.cli.context import Context, with_database
from gw.cli.output import Result

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "agent", "make and change agents, and see what they cost")

    create_ = add_command(verbs, "create", "make an agent", with_database(create))
    create_.add_argument(
        "--account", metavar="ID", type=identifier, required=True, help="whose agent it is"
    )
    agent_options.add_create_options(create_)

    text = "change an agent; what is not given stays"
    set_parser = add_command(verbs, "set", text, with_database(set_, check=agent_options.check_set))
    _with_id(set_parser)
    agent_options.add_set_options(set_parser)

    list_parser = add_command(verbs, "list", "list agents", with_database(list_))
    list_parser.add_argument("--account", metavar="ID", type=identifier, help="of this one alone")
    _with_id(add_command(verbs, "show", "show an agent", with_database(show)))
    _with_id(add_command(verbs, "enable", "let its keys work again", with_database(enable)))
    _with_id(add_command(verbs, "disable", "refuse all its keys", with_database(disable)))

    text = "what the keys of an agent have cost, revoked ones too"
    usage_ = add_command(
        verbs, "usage", text, with_database(usage, check=agent_options.check_usage)
    )
    _with_id(usage_)
    usage_.add_argument("--period", metavar="P", help="today, 7d, 30d (default), this_month, all")
    usage_.add_argument("--from", dest="since", metavar="TIME", help="a date or an RFC 3339 time")
    usage_.add_argument("--to", dest="until", metavar="TIME", help="likewise; both or none")


async def create(context: Context, options: Namespace) -> Result:
    wish = table.NewAgent(
        account_id=options.account,
        name=options.name,
        user_name=options.user,
        system_prompt=agent_options.read_prompt(options.system_prompt),
        model=read_chat_model(options.model, context.config.registry),
        temperature=options.temperature,
        web_search=options.web_search,
        image_generation=options.image_generation,
        kbs=list(dict.fromkeys(options.kb or ())),
    )
    async with context.change() as (session, actor):
        return _result(context, await admin.create(session, actor, wish))


async def set_(context: Context, options: Namespace) -> Result:
    return await _change(context, options, agent_options.read_changes(context, options))


async def list_(context: Context, options: Namespace) -> Result:
    if options.account is not None:
        await accounts.show(context.database, options.account)
    found = await table.list_all(context.database, options.account)
    return agent_list_result(found, context.config.agents.default_model)


async def show(context: Context, options: Namespace) -> Result:
    return _result(context, await table.show(context.database, options.id))


async def enable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": True})


async def disable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": False})


async def usage(context: Context, options: Namespace) -> Result:
    agent = await table.show(context.database, options.id)
    window, now = agent_options.read_window_of(options), datetime.now(UTC)
    sums = await read_usage(
        context.database, account_id=agent.account_id, agent_id=agent.id, window=window, now=now
    )
    return usage_result(agent, window, sums, context.config.credits_per_usd)


async def _change(context: Context, options: Namespace, changes: AgentChanges) -> Result:
    async with context.change() as (session, actor):
        changed = await admin.change(session, actor, options.id, changes)
    await context.in_force()
    return _result(context, changed)


def _result(context: Context, agent: AgentRecord) -> Result:
    return agent_result(agent, context.config.agents.default_model)


def _with_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=identifier, help="of the agent, agent_…")
