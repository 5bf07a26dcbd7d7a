"""The options of an agent's settings, and the window of its usage.

`set` keeps the settings not given; `--kb` replaces the whole list.
"""

from __future__ import annotations

from argparse import SUPPRESS, BooleanOptionalAction, Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from gw.admin.values import PROMPT_BYTES_MAX, prompt, read_chat_model
from gw.agents.table import AgentChanges
from gw.api.logs.parameters import Parameters
from gw.api.logs.window import Window, read_window
from gw.cli import arguments
from gw.cli.context import Context
from gw.cli.failures import UsageFault
from gw.errors import GatewayError
from gw.keys.principal import OWNER

if TYPE_CHECKING:
    from gw.cli.arguments import Parser


SWITCHES = ("web_search", "image_generation")
_SWITCH_HELP = {"web_search": "let it search the web", "image_generation": "let it make images"}
_NAME_HELP = "as lists show it"
_USER_HELP = "whose bases it may read"
_PROMPT_HELP = "its system prompt, in UTF-8"
_TEMPERATURE_HELP = "of sampling, 0 to 2 (default: the model's)"


def add_create_options(parser: Parser) -> None:
    """Add every option of a new agent."""
    parser.add_argument(
        "--name", metavar="NAME", type=arguments.label, required=True, help=_NAME_HELP
    )
    parser.add_argument(
        "--user", metavar="NAME", type=arguments.user_name, default=OWNER, help=_USER_HELP
    )
    parser.add_argument(
        "--system-prompt", metavar="FILE", type=Path, required=True, help=_PROMPT_HELP
    )
    parser.add_argument("--model", metavar="M", help="(default: that of the account)")
    parser.add_argument(
        "--temperature", metavar="T", type=arguments.temperature, help=_TEMPERATURE_HELP
    )
    for switch in SWITCHES:
        option = f"--{switch.replace('_', '-')}"
        parser.add_argument(option, action="store_true", help=_SWITCH_HELP[switch])
    parser.add_argument("--kb", metavar="KB", action="append", help="may be repeated")


def add_set_options(parser: Parser) -> None:
    """Add the options of settings; one that is not given sets no attribute."""
    absent = SUPPRESS
    parser.add_argument(
        "--name", metavar="NAME", type=arguments.label, default=absent, help=_NAME_HELP
    )
    parser.add_argument(
        "--user", metavar="NAME", type=arguments.user_name, default=absent, help=_USER_HELP
    )
    parser.add_argument(
        "--system-prompt", metavar="FILE", type=Path, default=absent, help=_PROMPT_HELP
    )
    parser.add_argument(
        "--model",
        metavar="M|none",
        type=arguments.or_none(str),
        default=absent,
        help="which it calls; none: that of the account",
    )
    parser.add_argument(
        "--temperature",
        metavar="T|none",
        type=arguments.or_none(arguments.temperature),
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
