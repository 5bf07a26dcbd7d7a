"""The options that name models, of keys, accounts and agents, read against the registry."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from channels.registry import Registry
from gw.admin.values import canonical_models
from gw.cli.arguments import Parser


def add_model_options(parser: Parser) -> None:
    """Add the options of a list of allowed models, none, or all, which exclude each other."""
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
    """Return the list given by the options: None is every model. Raises Refused."""
    if options.allow_none:
        return []
    return canonical_models(options.allow, registry) if options.allow else None


def shown_models(allowed: Sequence[str] | None) -> str:
    """Return the list for people."""
    return "all" if allowed is None else ", ".join(allowed) or "none"
