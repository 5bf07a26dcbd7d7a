"""The options of a key's permissions, of `gw key create`, `import-hash` and `set`.

They are converted to the types of `gw/keys`, models by the registry of the configuration. `set`
keeps the settings not given (contract §7: `--allow` replaces the whole list).
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace

from channels.registry import Registry
from gw.admin import keys as admin
from gw.cli import arguments
from gw.cli.failures import UsageFault
from gw.cli.model_options import add_model_options, allowed_models, names_models
from gw.keys.issue import KeyWish
from gw.keys.principal import KEY_KINDS, OWNER
from gw.keys.store import KeyChanges

DEFAULT_KIND = "console"
KIND_HELP = "what it is for: agent speaks for an agent, the others are words in lists"

EXPIRES_HELP = "refuse it from then on (default: never)"
LOGS_HELP = "let it read the logs of the whole account"
CAP_HELP = "what it may spend in all (default: any)"


def add_create_options(parser: arguments.Parser, *, is_needed: bool = True) -> None:
    """Add the account, the name and every setting of a new key."""
    parser.add_argument(
        "--account",
        metavar="ID",
        type=arguments.identifier,
        required=is_needed,
        help="whose key it is",
    )
    parser.add_argument(
        "--name", metavar="NAME", type=arguments.label, required=is_needed, help="as lists show it"
    )
    parser.add_argument("--kind", choices=KEY_KINDS, default=DEFAULT_KIND, help=KIND_HELP)
    parser.add_argument(
        "--user",
        metavar="NAME",
        type=arguments.user_name,
        default=OWNER,
        help="of the account; for good",
    )
    parser.add_argument(
        "--agent",
        metavar="ID",
        type=arguments.identifier,
        help="which agent a key of kind agent speaks for",
    )
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--allow", metavar="MODEL", action="append", help="may be repeated")
    models.add_argument("--allow-none", action="store_true", help="allow no model at all")
    parser.set_defaults(allow_all=False)
    parser.add_argument("--expires", metavar="RFC3339", type=arguments.instant, help=EXPIRES_HELP)
    parser.add_argument("--spend-cap-usd", metavar="X", type=arguments.usd_or_more, help=CAP_HELP)
    parser.add_argument("--account-logs", action="store_true", help=LOGS_HELP)


def add_set_options(parser: arguments.Parser) -> None:
    """Add the options of settings; one that is not given sets no attribute."""
    absent = SUPPRESS
    parser.add_argument(
        "--name", metavar="NAME", type=arguments.label, default=absent, help="as lists show it"
    )
    parser.add_argument("--kind", choices=KEY_KINDS, default=absent, help=KIND_HELP)
    add_model_options(parser)
    parser.add_argument(
        "--expires",
        metavar="RFC3339|none",
        type=arguments.or_none(arguments.instant),
        default=absent,
        help="refuse it from then on, or never",
    )
    parser.add_argument(
        "--spend-cap-usd",
        metavar="X|none",
        type=arguments.or_none(arguments.usd_or_more),
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
