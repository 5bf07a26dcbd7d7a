"""A first configuration: a channel for each provider with a key, and the models it serves.

It contains no keys: they are read from the environment at each load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import indent

from channels.kinds import KINDS, Kind
from gw.price_list.offers import Provided, offers
from gw.price_list.reading import PriceList
from gw.price_list.writing import item, unpriced

HEAD = """\
# Written by `gw`; `gw check-config` names each fault with its line. Every other key is described in
# ops/configuration.md of the project, which an installed program does not bring.
# ${NAME} is taken from the environment when the gateway starts or reloads (SIGHUP).

listen: 127.0.0.1:8080        # where clients come
admin_listen: 127.0.0.1:${GW_ADMIN_PORT:-9090}  # metrics and probes, never to be public
data_dir: ${GW_DATA_DIR:-./var}  # the embedded PostgreSQL and what else is kept
database_url: ${GW_DATABASE_URL:-}  # postgresql://…; empty: embedded
redis_url: ${GW_REDIS_URL:-}  # where several hosts share limits
secret: ${GW_SECRET:-}        # encrypts stored keys; empty: made once under data_dir
drain_seconds: 185            # for calls in flight when it stops; a call takes 180 at most

"""

_CHANNELS = """
# Upstream accounts. With `on_429: next` another channel of the model, or another key of a list,
# takes a call before its client has the 429. `data: {retention_days: 0, region: eu}` states what
# an account's contract promises, for keys and calls that demand it.
channels:
"""
_MODELS = """
# What clients ask for. Two channels of a model stand in for each other. A chat model needs both
# prices, in USD per million tokens; those below are of the price list of {dated}, each with where
# it was read: compare them with the provider's page. `gw models import` adds what a newer list has.
models:
"""
_NO_MODELS = """
# What clients ask for. A chat model needs both prices, in USD per million tokens: they are on the
# provider's page of prices. Two channels of a model stand in for each other.
models: []
#  - id: {example}
#    channels: [{channel}]                   # or [{{id: {channel}, as: its-name-over-there}}]
#    price: {{input: "…", output: "…"}}
"""
_UNPRICED = """\
  # Models whose price is not known here: write it and take the # away.
"""
# Of kinds that resell others' models: tried when the others are full or failing.
_RESELLER_PRIORITY = 2


def kinds_found(environ: Mapping[str, str]) -> list[Kind]:
    """Return the kinds whose variables are all set in the environment, in the order of the table.

    A kind without a key is never found: the operator must name it.
    """
    return [
        kind
        for kind in KINDS.values()
        if (kind.variables or kind.ambient) and not missing(kind, environ)
    ]


def missing(kind: Kind, environ: Mapping[str, str]) -> list[str]:
    """Return the variables of a kind that are not set; of alternatives, the first."""
    needed = [(*kind.variables, *kind.ambient)]
    needed += [(name,) for name in (kind.url_variable, *dict(kind.settings).values()) if name]
    return [names[0] for names in needed if names and not any(environ.get(name) for name in names)]


def starter(kinds: Sequence[Kind], environ: Mapping[str, str], price_list: PriceList) -> str:
    """Return the configuration file of these kinds, at least one."""
    channels = "".join(_channel(kind, environ) for kind in kinds)
    return HEAD + _CHANNELS + channels + _models(kinds, price_list)


def _models(kinds: Sequence[Kind], price_list: PriceList) -> str:
    """Return the models of the list that channels of these kinds could serve, as YAML."""
    channels = [Provided(kind.name, kind.name, frozenset(kind.protocols)) for kind in kinds]
    found = offers(price_list, channels)
    priced = [offer for offer in found if offer.price is not None]
    if not priced:
        return _NO_MODELS.format(example="name-of-a-model", channel=kinds[0].name)
    text = _MODELS.format(dated=price_list.dated) + indent("".join(map(item, priced)), "  ")
    waiting = [offer for offer in found if offer.price is None]
    if waiting:
        text += _UNPRICED + indent("".join(map(unpriced, waiting)), "  ")
    return text


def _channel(kind: Kind, environ: Mapping[str, str]) -> str:
    """Return a channel as YAML, with a comment on what its kind implies."""
    lines = [f"  - id: {kind.name}", f"    kind: {kind.name}"]
    if kind.url_variable:
        lines.append(f"    base_url: ${{{kind.url_variable}}}")
    lines += [f"    {name}: ${{{variable}}}" for name, variable in kind.settings]
    names = [name for name in kind.variables if environ.get(name)]
    if kind.variables and (names or not kind.ambient):
        lines.append(f"    api_key: ${{{(names or kind.variables)[0]}}}")
    if kind.is_reseller:
        lines.append(f"    priority: {_RESELLER_PRIORITY}  # others of a model are tried first")
    lines.append(f"    # speaks {', '.join(kind.protocols)}; {kind.source}")
    if kind.quirks:
        lines.append(f"    # {kind.quirks}")
    return "\n".join([*lines, ""])
