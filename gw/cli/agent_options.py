"""The options that say what an agent is, and the window that its usage is asked for.

What `set` is not given stays as it is; `--kb` replaces the whole list.
"""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from actors.store.database import Database
from gw.agents.store import AgentChanges, AgentRecord
from gw.api.logs.parameters import Parameters
from gw.api.logs.window import Window, read_window
from gw.cli.arguments import label, or_none, temperature, user_name
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.cli.model_options import read_chat_model
from gw.errors.table import GatewayError
from gw.keys.principal import OWNER
from gw.knowledge.bases import readable_base

if TYPE_CHECKING:
    from gw.cli.arguments import Parser

PROMPT_BYTES_MAX = 64 * 1024
SWITCHES = ("web_search", "image_generation")


def add_create_options(parser: Parser) -> None:
    """Take every setting of a new agent."""
    parser.add_argument("--name", metavar="NAME", type=label, required=True)
    parser.add_argument(
        "--user", metavar="NAME", type=user_name, default=OWNER, help="whose bases it may read"
    )
    parser.add_argument("--system-prompt", metavar="FILE", type=Path, required=True)
    parser.add_argument("--model", metavar="M", help="(default: that of the account)")
    parser.add_argument("--temperature", metavar="T", type=temperature)
    for switch in SWITCHES:
        parser.add_argument(f"--{switch.replace('_', '-')}", action="store_true")
    parser.add_argument("--kb", metavar="KB", action="append", help="may be repeated")


def add_set_options(parser: Parser) -> None:
    """Take any of the settings; an option that is not given leaves no trace."""
    absent = SUPPRESS
    parser.add_argument("--name", metavar="NAME", type=label, default=absent)
    parser.add_argument("--user", metavar="NAME", type=user_name, default=absent)
    parser.add_argument("--system-prompt", metavar="FILE", type=Path, default=absent)
    parser.add_argument("--model", metavar="M|none", type=or_none(str), default=absent)
    parser.add_argument(
        "--temperature", metavar="T|none", type=or_none(temperature), default=absent
    )
    for switch in SWITCHES:
        option = f"--{switch.replace('_', '-')}"
        parser.add_argument(option, action=BooleanOptionalAction, default=absent)
    bases = parser.add_mutually_exclusive_group()
    bases.add_argument(
        "--kb",
        metavar="KB",
        action="append",
        default=absent,
        help="may be repeated; the whole list",
    )
    bases.add_argument("--no-kb", dest="kb", action="store_const", const=[], default=absent)


def check_set(options: Namespace) -> None:
    """Raise UsageFault when nothing is to be set."""
    names = ("name", "user", "system_prompt", "model", "temperature", "kb", *SWITCHES)
    if not any(name in options for name in names):
        raise UsageFault("nothing to set: name at least one setting")


async def read_changes(context: Context, options: Namespace, agent: AgentRecord) -> AgentChanges:
    """What is to be changed of an agent. Raises UsageFault."""
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
    if "user" in options or "kb" in options:
        user = getattr(options, "user", agent.user)
        kbs = getattr(options, "kb", agent.kbs)
        changes["user_name"] = user
        changes["kbs"] = await readable(
            context.database, kbs, account_id=agent.account_id, user=user
        )
    return changes


def read_prompt(path: Path) -> str:
    """The text of a system prompt. Raises UsageFault for a file that cannot be one."""
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
    if not text.strip():
        raise UsageFault(f"--system-prompt: {path} is empty")
    if "\0" in text:  # which PostgreSQL takes in no text
        raise UsageFault(f"--system-prompt: {path} has a NUL character")
    return text


async def readable(
    database: Database, kbs: Sequence[str], *, account_id: str, user: str
) -> list[str]:
    """The bases that an agent may be given, each once. Raises UsageFault."""
    for kb in kbs:
        if await readable_base(database, kb, account_id=account_id, user=user) is None:
            raise UsageFault(f"the user {user} may read no knowledge base {kb}")
    return list(dict.fromkeys(kbs))


def check_usage(options: Namespace) -> None:
    """Raise UsageFault for what is no window."""
    read_window_of(options)


def read_window_of(options: Namespace) -> Window:
    """The window as the call log reads it. Raises UsageFault."""
    asked = {"period": options.period, "from": options.since, "to": options.until}
    query = {name: [text.encode()] for name, text in asked.items() if text is not None}
    try:
        return read_window(Parameters(query), datetime.now(UTC))
    except GatewayError as refused:
        raise UsageFault(refused.message) from refused
