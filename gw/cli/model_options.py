"""The options that name models, of keys, accounts and agents, read against the registry."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from channels.registry import Registry
from gw.agents.policy import chat_model
from gw.cli.failures import CommandRefused, UsageFault
from gw.config.spelling import closest

if TYPE_CHECKING:
    from gw.cli.arguments import Parser


def add_model_options(parser: Parser) -> None:
    """Take a list of allowed models, none, or all; at most one of the three."""
    models = parser.add_mutually_exclusive_group()
    models.add_argument(
        "--allow", metavar="MODEL", action="append", help="may be repeated; replaces the list"
    )
    models.add_argument("--allow-none", action="store_true", help="allow no model at all")
    models.add_argument("--allow-all", action="store_true", help="allow every model")


def names_models(options: Namespace) -> bool:
    """Whether any of the three is given."""
    return bool(options.allow or options.allow_none or options.allow_all)


def allowed_models(options: Namespace, registry: Registry) -> list[str] | None:
    """The list that the options make: None is every model. Raises CommandRefused."""
    if options.allow_none:
        return []
    return canonical_models(options.allow, registry) if options.allow else None


def shown_models(allowed: Sequence[str] | None) -> str:
    """The list as a person reads it."""
    return "all" if allowed is None else ", ".join(allowed) or "none"


def canonical_models(names: Sequence[str], registry: Registry) -> list[str]:
    """Ids for ids and aliases, each once. Raises CommandRefused with guesses for unknown ones."""
    unknown = [name for name in dict.fromkeys(names) if registry.resolve(name) is None]
    if unknown:
        raise CommandRefused(
            "; ".join(_unknown(name, registry) for name in unknown), "model_not_found"
        )
    found = (registry.resolve(name) for name in names)
    return list(dict.fromkeys(model.id for model in found if model is not None))


def read_chat_model(name: str | None, registry: Registry) -> str | None:
    """The id of a model that an agent may be given; None stays None. Raises UsageFault."""
    if name is None:
        return None
    model = chat_model(registry, name)
    if model is not None:
        return model.id
    if registry.resolve(name) is None:
        raise UsageFault(_unknown(name, registry))
    raise UsageFault(f"{name} is not a chat model that can be called")


def _unknown(name: str, registry: Registry) -> str:
    names = [*registry.models, *(alias for m in registry.models.values() for alias in m.aliases)]
    guess = closest(name, names)
    return f"there is no model {name}" + (f", did you mean {guess}?" if guess else "")
