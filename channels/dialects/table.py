"""The table of dialects: one record for each folder that a row of the families names.

A folder is registered by that row (`channels/families.py`, `dialect`) and by `DIALECT` in its
`dialect.py`; no other file lists the dialects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import MappingProxyType

from channels.dialects.dialect import ChatDialect, Counting, Dialect
from channels.dialects.token_counts import served_tier
from channels.families import FAMILIES
from channels.family import Family


def _record(family: Family) -> Dialect:
    dialect = import_module(f"channels.dialects.{family.dialect}.dialect").DIALECT
    assert isinstance(dialect, Dialect), family
    assert dialect.family is family, family
    return dialect


# By protocol.
DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {protocol: _record(family) for protocol, family in FAMILIES.items() if family.dialect}
)
CHAT_DIALECTS: Mapping[str, ChatDialect] = MappingProxyType(
    {
        protocol: dialect
        for protocol, dialect in DIALECTS.items()
        if isinstance(dialect, ChatDialect)
    }
)


def counting_of(protocol: str) -> Counting:
    """Return how a protocol with an endpoint for counting counts."""
    counting = CHAT_DIALECTS[protocol].counting
    assert counting is not None, protocol
    return counting


def asked_tier(wires: Mapping[str, str | None], headers: Iterable[tuple[str, str]]) -> str | None:
    """Return the service tier that a channel's own headers ask its host for; None: the standard
    one. `wires` are its dialects by protocol."""
    hostings = (CHAT_DIALECTS[name].hostings for name in wires if name in CHAT_DIALECTS)
    tiers = [one.tier for own in hostings for wire, one in own.items() if wire in wires.values()]
    names = {tier.name.lower() for tier in tiers if tier is not None}
    return next((served_tier(value) for name, value in headers if name.lower() in names), None)
