"""The options that say what a key may do, for `gw key create`, `import-hash` and `set`.

Reads them into what `gw/keys` takes, the models against the registry of the configuration. What
`set` is not given stays as it is (contract §7: `--allow` replaces the whole list).
"""

from __future__ import annotations

from argparse import SUPPRESS, Namespace
from typing import TYPE_CHECKING

from channels.registry import Registry
from gw.cli.arguments import identifier, instant, label, or_none, usd_or_more, user_name
from gw.cli.failures import UsageFault
from gw.cli.model_options import add_model_options, allowed_models, names_models
from gw.keys.issue import KeyWish
from gw.keys.principal import AGENT, KEY_KINDS, OWNER
from gw.keys.store import KeyChanges, KeyRecord

if TYPE_CHECKING:
    from gw.cli.arguments import Parser

DEFAULT_KIND = "console"


def add_create_options(parser: Parser) -> None:
    """Take the account, the name and every setting of a new key."""
    parser.add_argument("--account", metavar="ID", type=identifier, required=True)
    parser.add_argument("--name", metavar="NAME", type=label, required=True)
    parser.add_argument("--kind", choices=KEY_KINDS, default=DEFAULT_KIND)
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
    parser.add_argument("--expires", metavar="RFC3339", type=instant)
    parser.add_argument("--spend-cap-usd", metavar="X", type=usd_or_more)
    parser.add_argument(
        "--account-logs", action="store_true", help="let it read the logs of the whole account"
    )


def add_set_options(parser: Parser) -> None:
    """Take any of the settings; an option that is not given leaves no trace."""
    absent = SUPPRESS
    parser.add_argument("--name", metavar="NAME", type=label, default=absent)
    parser.add_argument("--kind", choices=KEY_KINDS, default=absent)
    add_model_options(parser)
    parser.add_argument("--expires", metavar="RFC3339|none", type=or_none(instant), default=absent)
    parser.add_argument(
        "--spend-cap-usd", metavar="X|none", type=or_none(usd_or_more), default=absent
    )
    logs = parser.add_mutually_exclusive_group()
    logs.add_argument("--account-logs", action="store_true", default=absent)
    logs.add_argument(
        "--no-account-logs", dest="account_logs", action="store_false", default=absent
    )


def check_create(options: Namespace) -> None:
    """Raise UsageFault for options that do not go together."""
    if (options.agent is not None) != (options.kind == AGENT):
        raise UsageFault(f"--agent goes with --kind {AGENT}, and that needs it")
    if options.kind == AGENT:
        _check_agent_key(options, account_logs=options.account_logs)


def read_wish(options: Namespace, registry: Registry) -> KeyWish:
    """What is asked of a new key. Raises CommandRefused for a model that is not there."""
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
    """Raise UsageFault when nothing is to be set."""
    names = ("name", "kind", "expires", "spend_cap_usd", "account_logs")
    if not names_models(options) and not any(name in options for name in names):
        raise UsageFault("nothing to set: name at least one setting")


def read_changes(options: Namespace, key: KeyRecord, registry: Registry) -> KeyChanges:
    """What is to be changed of `key`. Raises CommandRefused, UsageFault."""
    changes = KeyChanges()
    if key.kind == AGENT:
        _check_agent_key(options, account_logs=getattr(options, "account_logs", False))
    if "name" in options:
        changes["name"] = options.name
    if "kind" in options:
        _check_kind(options.kind, key)
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


def _check_kind(kind: str, key: KeyRecord) -> None:
    """An agent's key is fenced in; it can neither leave the fence nor slip in behind it."""
    if (kind == AGENT) != (key.kind == AGENT):
        raise UsageFault(f"{key.id} is of kind {key.kind} and cannot become one of kind {kind}")


def _check_agent_key(options: Namespace, *, account_logs: bool) -> None:
    """What an agent may call is its organisation's word, and it reads no logs."""
    if options.allow or options.allow_none:
        raise UsageFault(
            f"a key of kind {AGENT} has no list of models of its own: see `gw account set`"
        )
    if account_logs:
        raise UsageFault(f"a key of kind {AGENT} reads no logs")
