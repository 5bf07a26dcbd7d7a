"""The usage that Converse states, in the members of a messages usage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from channels.dialects.messages.converse_events import StatedUsage
from channels.dialects.token_counts import count_of
from channels.json.lenient import text_of
from channels.json.written import Written

_USAGE: Mapping[str, str] = MappingProxyType(
    {
        "inputTokens": "input_tokens",
        "outputTokens": "output_tokens",
        "cacheReadInputTokens": "cache_read_input_tokens",
        "cacheWriteInputTokens": "cache_creation_input_tokens",
    }
)
_TTLS = ("5m", "1h")
# Tiers with their own prices; others are the standard one, or prepaid.
TIERED = ("priority", "flex")


def write_usage(stated: StatedUsage) -> Written | None:
    """Return the stated counts; in both protocols, input excludes cached tokens.

    They include the service tier, and the tokens written to a cache by lifetime.
    """
    usage = stated.usage
    if not isinstance(usage, Mapping):
        return None
    counts = {name: count_of(usage.get(one)) for one, name in _USAGE.items()}
    members: Written = {name: count for name, count in counts.items() if count is not None}
    kept = {
        f"ephemeral_{ttl}_input_tokens": count
        for ttl, count in _by_lifetime(usage.get("cacheDetails"))
    }
    if kept:
        members["cache_creation"] = kept
    tier = stated.service_tier
    if isinstance(tier, Mapping) and (word := text_of(tier.get("type"))) in TIERED:
        members["service_tier"] = word
    return members


def _by_lifetime(stated: object) -> Iterator[tuple[str, int]]:
    """Yield the lifetimes of a cache and the tokens written to it, of entries as documented."""
    for one in stated if isinstance(stated, list) else ():
        if isinstance(one, Mapping) and text_of(one.get("ttl")) in _TTLS:
            count = count_of(one.get("inputTokens"))
            if count is not None:
                yield one["ttl"], count


def shown(usage: Written | None) -> Written:
    """Return the usage member, which clients require; without input it states nothing."""
    return usage or {"output_tokens": 0}
