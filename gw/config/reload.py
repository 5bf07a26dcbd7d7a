"""The effects of a reload: differences, those that wait for a restart, and suspicious ones.

A reload replaces the settings read by each call; those passed to listeners, pools and engines at
their creation stay until the process is restarted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from channels.registry import ModelSpec
from gw.config import config
from gw.config.faults import ConfigFaults, Fault

# Settings that a reload applies, or that have no effect.
APPLIED = frozenset(
    {
        "agents",
        "cautions",
        "drain_seconds",
        "keep_alive_before_first_event",
        "keep_alive_seconds",
        "ledger_retention_months",
        "log_level",
        "registry",
        "retention_months",
        "source",
        "tls",  # the files; `needing_restart` checks whether TLS is switched on or off
        "translations",
    }
)
# Keys of the file whose unit differs from that of the value.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "max_body_bytes": "max_body_mb",
        "max_bodies_bytes": "max_bodies_mb",
        "max_answers_bytes": "max_answers_mb",
        "idempotency_max_bytes": "idempotency_max_kb",
    }
)

# A larger factor is regarded as a wrong decimal point or unit.
PRICE_FACTOR_MAX = 10
# Differences in the log line of a reload; a list of prices has thousands.
CHANGES_MAX = 100


def check_price_moves(running: config.Config, wanted: config.Config) -> None:
    """Raise ConfigFaults for prices that move by more than `PRICE_FACTOR_MAX`, or from or to 0."""
    faults = []
    models = running.registry.models
    for index, model in enumerate(wanted.registry.models.values()):
        before = _prices(models[model.id]) if model.id in models else {}
        for name, after in _prices(model).items():
            least, most = sorted((before.get(name, after), after))
            if most > least * PRICE_FACTOR_MAX:
                found = f"{after.normalize():f} USD with the multiplier"
                was = f"{before[name].normalize():f}"
                allowed = f"at most {PRICE_FACTOR_MAX} times more or less than {was} at a reload"
                path = f"models[{index}].price.{name}"
                hint = "a restart puts it in force"
                faults.append(Fault(str(wanted.source), path, found, allowed, hint))
    if faults:
        raise ConfigFaults(faults)


def changes(running: config.Config, wanted: config.Config) -> list[str]:
    """Return at most `CHANGES_MAX` differences for the log: names, with values only of prices."""
    found = [
        *_of_sections("channel", running.registry.channels, wanted.registry.channels),
        *_of_sections("model", running.registry.models, wanted.registry.models),
        *(
            _KEYS.get(field.name, field.name)
            for field in fields(config.Config)
            if field.name not in {"cautions", "registry", "source"}
            and getattr(running, field.name) != getattr(wanted, field.name)
        ),
    ]
    rest = len(found) - CHANGES_MAX
    return found if rest <= 0 else [*found[:CHANGES_MAX], f"and {rest} more"]


def _of_sections(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *after]):
        if name not in before:
            yield f"{kind} {name}: added"
        elif name not in after:
            yield f"{kind} {name}: removed"
        elif before[name] != after[name]:
            yield f"{kind} {name}: {', '.join(_of_members(before[name], after[name]))}"


def _of_members(before: Any, after: Any) -> Iterator[str]:
    """Yield the names of differences; values may be keys, or addresses with keys."""
    for one in fields(before):
        if not one.init or getattr(before, one.name) == getattr(after, one.name):
            continue
        if one.name != "price":
            yield one.name
            continue
        mine, theirs = before.price.members(), after.price.members()
        for name in dict.fromkeys([*mine, *theirs]):
            if mine.get(name) != theirs.get(name):
                yield f"price.{name} {mine.get(name)} to {theirs.get(name)}"


def _prices(model: ModelSpec) -> dict[str, Decimal]:
    members = model.price.members()
    members.pop("area_threshold_mp", None)  # no price
    for bound in model.bindings:
        if bound.price is not None:
            own = bound.price.over(model.price).members()
            members |= {f"{name} on {bound.channel_id}": own[name] for name in own}
    return {name: value * model.multiplier for name, value in members.items()}


def needing_restart(running: config.Config, wanted: config.Config) -> list[str]:
    """Return the changed keys that need a restart of the process."""
    keys: list[str] = []
    for one in fields(config.Config):
        before, after = getattr(running, one.name), getattr(wanted, one.name)
        if one.name == "tls" and (before is None) != (after is None):
            keys.append("tls")
        if one.name in APPLIED or before == after:
            continue
        if isinstance(before, config.KbStore | config.Tasks | config.Timeouts):
            keys += [
                f"{one.name}.{part.name}"
                for part in fields(before)
                if getattr(before, part.name) != getattr(after, part.name)
            ]
        else:
            keys.append(_KEYS.get(one.name, one.name))
    return keys
