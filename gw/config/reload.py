"""The effects of a reload: differences, those that wait for a restart, and suspicious ones.

A reload replaces the settings read by each call; those passed to listeners, pools and engines at
their creation stay until the process is restarted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any

from channels.registry import ModelSpec
from gw.config.config import Config
from gw.config.faults import ConfigFaults, Fault
from gw.config.keys import declared

# A larger factor is regarded as a wrong decimal point or unit.
PRICE_FACTOR_MAX = 10
# Differences in the log line of a reload; a list of prices has thousands.
CHANGES_MAX = 100


def check_price_moves(running: Config, wanted: Config) -> None:
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


def changes(running: Config, wanted: Config) -> list[str]:
    """Return at most `CHANGES_MAX` differences for the log: names, with values only of prices."""
    found = [
        *_of_sections("channel", running.registry.channels, wanted.registry.channels),
        *_of_sections("model", running.registry.models, wanted.registry.models),
        *(
            name
            for name, one, _ in declared(Config)
            if getattr(running, one.name) != getattr(wanted, one.name)
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


def in_force(running: Config, wanted: Config) -> Config:
    """Return the wanted configuration as far as it does not wait for a restart.

    A key that waits would else hold for what reads it now, and not for what read it at the start.
    """
    waiting = [one.name for _, one, key in declared(Config) if not key.is_live]
    waiting += ["tls"] if _switches_tls(running, wanted) else []
    return replace(wanted, **{name: getattr(running, name) for name in waiting})


def _switches_tls(running: Config, wanted: Config) -> bool:
    return (running.tls is None) != (wanted.tls is None)


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """Return the changed keys that need a restart of the process."""
    switched = ["tls"] if _switches_tls(running, wanted) else []
    return [*_waiting("", Config, running, wanted), *switched]


def _waiting(path: str, record: type, running: Any, wanted: Any) -> Iterator[str]:
    for name, one, key in declared(record):
        before, after = getattr(running, one.name), getattr(wanted, one.name)
        if key.is_live or before == after:
            continue
        if key.record is None:
            yield path + name
        else:
            yield from _waiting(f"{path}{name}.", key.record, before, after)
