"""`gw agent`: create, change, enable and disable agents, and report their cost.

The table is `gw/agents.py`.
"""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction, Namespace
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from actors.wallet.pricing import format_credits, format_usd
from gw import accounts as accounts
from gw import agents
from gw.admin import agents as admin
from gw.admin.values import PROMPT_BYTES_MAX, prompt, read_chat_model
from gw.agents import AgentChanges, AgentRecord
from gw.api.logs.list_query import STATUSES, Parameters, Window, read_window
from gw.api.logs.list_query import show as show_instant
from gw.api.logs.summary import KeyUsage, read_usage, total
from gw.cli.arguments import (
    Context,
    Result,
    UsageFault,
    add_command,
    add_noun,
    identifier,
    label,
    or_none,
    sheet,
    table,
    temperature,
    user_name,
    with_database,
)
from gw.errors import GatewayError
from gw.keys.principal import OWNER

if TYPE_CHECKING:
    from gw.cli.arguments import Parser, Subparsers


# The options of an agent's settings, and the window of its usage.
#
# `set` keeps the settings not given; `--kb` replaces the whole list.

SWITCHES = ("web_search", "image_generation")
_SWITCH_HELP = {"web_search": "let it search the web", "image_generation": "let it make images"}
_NAME_HELP = "as lists show it"
_USER_HELP = "whose bases it may read"
_PROMPT_HELP = "its system prompt, in UTF-8"
_TEMPERATURE_HELP = "of sampling, 0 to 2 (default: the model's)"


def add_create_options(parser: Parser) -> None:
    """Add every option of a new agent."""
    parser.add_argument("--name", metavar="NAME", type=label, required=True, help=_NAME_HELP)
    parser.add_argument("--user", metavar="NAME", type=user_name, default=OWNER, help=_USER_HELP)
    parser.add_argument(
        "--system-prompt", metavar="FILE", type=Path, required=True, help=_PROMPT_HELP
    )
    parser.add_argument("--model", metavar="M", help="(default: that of the account)")
    parser.add_argument("--temperature", metavar="T", type=temperature, help=_TEMPERATURE_HELP)
    for switch in SWITCHES:
        option = f"--{switch.replace('_', '-')}"
        parser.add_argument(option, action="store_true", help=_SWITCH_HELP[switch])
    parser.add_argument("--kb", metavar="KB", action="append", help="may be repeated")


def add_set_options(parser: Parser) -> None:
    """Add the options of settings; one that is not given sets no attribute."""
    absent = SUPPRESS
    parser.add_argument("--name", metavar="NAME", type=label, default=absent, help=_NAME_HELP)
    parser.add_argument("--user", metavar="NAME", type=user_name, default=absent, help=_USER_HELP)
    parser.add_argument(
        "--system-prompt", metavar="FILE", type=Path, default=absent, help=_PROMPT_HELP
    )
    parser.add_argument(
        "--model",
        metavar="M|none",
        type=or_none(str),
        default=absent,
        help="which it calls; none: that of the account",
    )
    parser.add_argument(
        "--temperature",
        metavar="T|none",
        type=or_none(temperature),
        default=absent,
        help="of sampling, 0 to 2; none: the model's",
    )
    for switch in SWITCHES:
        option = f"--{switch.replace('_', '-')}"
        parser.add_argument(
            option, action=BooleanOptionalAction, default=absent, help=_SWITCH_HELP[switch]
        )
    bases = parser.add_mutually_exclusive_group()
    bases.add_argument(
        "--kb",
        metavar="KB",
        action="append",
        default=absent,
        help="may be repeated; the whole list",
    )
    bases.add_argument(
        "--no-kb",
        dest="kb",
        action="store_const",
        const=[],
        default=absent,
        help="let it read no knowledge base",
    )


def check_set(options: Namespace) -> None:
    """Raise UsageFault without any option."""
    names = ("name", "user", "system_prompt", "model", "temperature", "kb", *SWITCHES)
    if not any(name in options for name in names):
        raise UsageFault("nothing to set: name at least one setting")


def read_changes(context: Context, options: Namespace) -> AgentChanges:
    """Return the changes of an agent. Raises Invalid."""
    changes = AgentChanges()
    if "name" in options:
        changes["name"] = options.name
    if "system_prompt" in options:
        changes["system_prompt"] = read_prompt(options.system_prompt)
    if "model" in options:
        changes["model"] = read_chat_model(options.model, context.config.registry)
    if "temperature" in options:
        changes["temperature"] = options.temperature
    if "web_search" in options:
        changes["web_search"] = options.web_search
    if "image_generation" in options:
        changes["image_generation"] = options.image_generation
    if "user" in options:
        changes["user_name"] = options.user
    if "kb" in options:
        changes["kbs"] = list(dict.fromkeys(options.kb))
    return changes


def read_prompt(path: Path) -> str:
    """Return the text of a system prompt. Raises UsageFault for an unusable file."""
    try:
        with path.open("rb") as file:
            content = file.read(PROMPT_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageFault(f"--system-prompt: {path} cannot be read: {reason}") from error
    if len(content) > PROMPT_BYTES_MAX:
        raise UsageFault(f"--system-prompt: {path} has more than {PROMPT_BYTES_MAX} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageFault(f"--system-prompt: {path} is not UTF-8") from error
    return prompt(text)


def check_usage(options: Namespace) -> None:
    """Raise UsageFault for an invalid window."""
    read_window_of(options)


def read_window_of(options: Namespace) -> Window:
    """Return the window, parsed like that of the call log. Raises UsageFault."""
    asked = {"period": options.period, "from": options.since, "to": options.until}
    query = {name: [text.encode()] for name, text in asked.items() if text is not None}
    try:
        return read_window(Parameters(query), datetime.now(UTC))
    except GatewayError as refused:
        raise UsageFault(refused.message) from refused


# The output of agents and of their cost.

COLUMNS = ("id", "account_id", "name", "user", "effective_model", "kbs", "enabled")
KEY_COLUMNS = ("key_id", "key_name", "requests", "cost_usd", "cost")


def agent_result(agent: AgentRecord, platform_default: str) -> Result:
    """One agent."""
    record: dict[str, Any] = msgspec.to_builtins(admin.view(agent, platform_default))
    return Result(record, sheet(record))


def agent_list_result(agents: Sequence[AgentRecord], platform_default: str) -> Result:
    """Several agents."""
    views = [admin.view(agent, platform_default) for agent in agents]
    records: list[dict[str, Any]] = msgspec.to_builtins(views)
    return Result({"agents": records}, table(records, COLUMNS))


def usage_result(
    agent: AgentRecord, window: Window, keys: Sequence[KeyUsage], credits_per_usd: Decimal
) -> Result:
    """Return the cost of an agent's keys in a window, highest first."""

    def cost(amount_nano_usd: int) -> Mapping[str, str]:
        return {
            "cost_usd": format_usd(amount_nano_usd),
            "cost": format_credits(amount_nano_usd, credits_per_usd),
        }

    whole = total(keys)
    by_key = [
        {
            "key_id": key.key_id,
            "key_name": key.key_name,
            "requests": key.requests,
            **cost(key.cost_nano_usd),
        }
        for key in sorted(keys, key=lambda key: (-key.cost_nano_usd, -key.requests, key.key_id))
    ]
    record = {
        "agent_id": agent.id,
        "name": agent.name,
        "period_from": show_instant(window.start),
        "period_to": show_instant(window.end),
        "requests": whole.requests,
        **cost(whole.cost_nano_usd),
        "input_tokens": whole.input_tokens,
        "output_tokens": whole.output_tokens,
        "cached_tokens": whole.cached_tokens,
    }
    counts = {status: whole.by_status.get(status, 0) for status in STATUSES}
    text = f"{sheet({**record, **counts})}\n\n{table(by_key, KEY_COLUMNS)}"
    return Result({**record, "status_counts": counts, "by_key": by_key}, text)


def add(nouns: Subparsers) -> None:
    """Add the noun to the command line."""
    verbs = add_noun(nouns, "agent", "make and change agents, and see what they cost")

    create_ = add_command(verbs, "create", "make an agent", with_database(create))
    create_.add_argument(
        "--account", metavar="ID", type=identifier, required=True, help="whose agent it is"
    )
    add_create_options(create_)

    text = "change an agent; what is not given stays"
    set_parser = add_command(verbs, "set", text, with_database(set_, check=check_set))
    _with_id(set_parser)
    add_set_options(set_parser)

    list_parser = add_command(verbs, "list", "list agents", with_database(list_))
    list_parser.add_argument("--account", metavar="ID", type=identifier, help="of this one alone")
    _with_id(add_command(verbs, "show", "show an agent", with_database(show)))
    _with_id(add_command(verbs, "enable", "let its keys work again", with_database(enable)))
    _with_id(add_command(verbs, "disable", "refuse all its keys", with_database(disable)))

    text = "what the keys of an agent have cost, revoked ones too"
    usage_ = add_command(verbs, "usage", text, with_database(usage, check=check_usage))
    _with_id(usage_)
    usage_.add_argument("--period", metavar="P", help="today, 7d, 30d (default), this_month, all")
    usage_.add_argument("--from", dest="since", metavar="TIME", help="a date or an RFC 3339 time")
    usage_.add_argument("--to", dest="until", metavar="TIME", help="likewise; both or none")


async def create(context: Context, options: Namespace) -> Result:
    wish = agents.NewAgent(
        account_id=options.account,
        name=options.name,
        user_name=options.user,
        system_prompt=read_prompt(options.system_prompt),
        model=read_chat_model(options.model, context.config.registry),
        temperature=options.temperature,
        web_search=options.web_search,
        image_generation=options.image_generation,
        kbs=list(dict.fromkeys(options.kb or ())),
    )
    async with context.change() as (session, actor):
        return _result(context, await admin.create(session, actor, wish))


async def set_(context: Context, options: Namespace) -> Result:
    return await _change(context, options, read_changes(context, options))


async def list_(context: Context, options: Namespace) -> Result:
    if options.account is not None:
        await accounts.show(context.database, options.account)
    found = await agents.list_all(context.database, options.account)
    return agent_list_result(found, context.config.agents.default_model)


async def show(context: Context, options: Namespace) -> Result:
    return _result(context, await agents.show(context.database, options.id))


async def enable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": True})


async def disable(context: Context, options: Namespace) -> Result:
    return await _change(context, options, {"enabled": False})


async def usage(context: Context, options: Namespace) -> Result:
    agent = await agents.show(context.database, options.id)
    window, now = read_window_of(options), datetime.now(UTC)
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
