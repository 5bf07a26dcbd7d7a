"""Which changes of a configuration a reload does not put in force.

A reload takes what is read again for each call; what was handed to listeners, pools and engines
when they were made stays until the process is restarted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType

from gw.config.config import Config, KbStore, Tasks, Timeouts

# What a reload does put in force, or what says nothing.
APPLIED = frozenset(
    {
        "agents",
        "cautions",
        "drain_seconds",
        "log_level",
        "registry",
        "retention_months",
        "source",
        "tls",  # the files; switching it on or off is looked at below
        "translations",
    }
)
# Where the file's key has another unit than the value that was made of it.
_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "max_body_bytes": "max_body_mb",
        "max_bodies_bytes": "max_bodies_mb",
        "idempotency_max_bytes": "idempotency_max_kb",
    }
)


def needing_restart(running: Config, wanted: Config) -> list[str]:
    """The keys in which a file differs from what a process was started with, and must wait."""
    keys: list[str] = []
    for field in fields(Config):
        before, after = getattr(running, field.name), getattr(wanted, field.name)
        if field.name == "tls" and (before is None) != (after is None):
            keys.append("tls")
        if field.name in APPLIED or before == after:
            continue
        if isinstance(before, KbStore | Tasks | Timeouts):
            keys += [
                f"{field.name}.{one.name}"
                for one in fields(before)
                if getattr(before, one.name) != getattr(after, one.name)
            ]
        else:
            keys.append(_KEYS.get(field.name, field.name))
    return keys
