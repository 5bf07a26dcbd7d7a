"""`gw agent`: create, change, enable and disable agents, and report their cost.

The table is `gw/agents/table.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gw import accounts
from gw.admin import agents as admin
from gw.agents import table
from gw.agents.agent import AGENT_NOUN, AgentRecord
from gw.api.logs.agent_usage import read_usage
from gw.api.logs.parameters import Parameters
from gw.api.logs.window import Window, read_window
from gw.cli import arguments
from gw.cli.agent_results import agent_list_result, agent_result, usage_result
from gw.cli.arguments import Verb, option
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.output import Result
from gw.cli.settings import setting, switching
from gw.errors import GatewayError

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    text = "make and change agents, and see what they cost"
    arguments.add_verbs(nouns, "agent", text, _verbs())


def _verbs() -> Iterator[Verb]:
    with_id = arguments.id_of("agent, agent_…")
    yield Verb("create", "make an agent", create, [AGENT_NOUN.add_options])
    text = "change an agent; what is not given stays"
    yield setting(AGENT_NOUN, admin.change, _result, with_id, text)
    of_account = arguments.account_of("of this one alone", required=False)
    yield Verb("list", "list agents", list_, [of_account])
    yield Verb("show", "show an agent", show, [with_id])
    yield from switching(
        admin.change,
        _result,
        with_id,
        enable="let its keys work again",
        disable="refuse all its keys",
    )
    yield Verb(
        "usage",
        "what the keys of an agent have cost, revoked ones too",
        usage,
        [
            with_id,
            option("--period", metavar="P", help="today, 7d, 30d (default), this_month, all"),
            option("--from", dest="since", metavar="TIME", help="a date or an RFC 3339 time"),
            option("--to", dest="until", metavar="TIME", help="likewise; both or none"),
        ],
        check=read_window_of,
    )


async def create(context: Context, options: Namespace) -> Result:
    wish = AGENT_NOUN.of_options(options, context.config.registry)
    async with context.change() as (session, actor):
        return _result(context, await admin.create(session, actor, wish))


async def list_(context: Context, options: Namespace) -> Result:
    if options.account is not None:
        await accounts.show(context.database, options.account)
    found = await table.list_all(context.database, options.account)
    platform_default = context.config.agents.default_model
    return agent_list_result([one.on(platform_default) for one in found])


async def show(context: Context, options: Namespace) -> Result:
    return _result(context, await table.show(context.database, options.id))


async def usage(context: Context, options: Namespace) -> Result:
    agent = await table.show(context.database, options.id)
    window, now = read_window_of(options), datetime.now(UTC)
    sums = await read_usage(
        context.database, account_id=agent.account_id, agent_id=agent.id, window=window, now=now
    )
    return usage_result(agent, window, sums, context.config.credits_per_usd)


def read_window_of(options: Namespace) -> Window:
    """Return the window, parsed like that of the call log. Raises UsageFault."""
    asked = {"period": options.period, "from": options.since, "to": options.until}
    query = {name: [text.encode()] for name, text in asked.items() if text is not None}
    try:
        return read_window(Parameters(query), datetime.now(UTC))
    except GatewayError as refused:
        raise UsageFault(refused.message) from refused


def _result(context: Context, agent: AgentRecord) -> Result:
    return agent_result(agent.on(context.config.agents.default_model))
