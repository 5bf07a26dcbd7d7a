"""Which translations there are, and what they are called.

Beside the table's there is the way that built-in tools of chat-completions take: over a channel's
responses protocol, whatever the configuration says of translations (contract §7).

The table is the specification's (spec: Translation paths). Which of them are switched on is the
configuration's (`translations`, by `setting`); trying a translation after the channels that speak
the client's protocol is the router's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from channels.families import CHAT, GEMINI, MESSAGES, RESPONSES
from channels.translation.model import Protocol


@dataclass(frozen=True, slots=True)
class Translation:
    """One path: from the protocol the client speaks to the one the channel does.

    `header` is the value of `X-Protocol-Translation`, `setting` its name in the configuration;
    the way of the built-in tools has neither, being none of the specification's paths.
    `closes_failures`: a stream that fails is closed by the gateway with an error of its own and the
    client's terminator; elsewhere it just ends (spec: Stream failure behaviour 1, 3).
    `is_preferred`: where a channel speaks several protocols that a client's can be translated to,
    this way is taken; among the others, the first of the table. An upstream that takes
    native-content has it as its own, and what it takes beside that is a conversion of its own
    making (spec: Protocol compatibility).
    """

    path: str
    client: Protocol
    upstream: Protocol
    header: str
    setting: str
    closes_failures: bool = False
    is_preferred: bool = False


_CHAT, _MESSAGES, _GEMINI = CHAT.protocol, MESSAGES.protocol, GEMINI.protocol
_ROWS = (
    Translation("T1", _CHAT, _MESSAGES, "openai_chat_to_anthropic_messages", "chat_to_messages"),
    Translation(
        "T2", _CHAT, _GEMINI, "openai_chat_to_gemini_native", "chat_to_native", is_preferred=True
    ),
    Translation("T3", _MESSAGES, _CHAT, "anthropic_messages_to_openai_chat", "messages_to_chat"),
    Translation("T4", _GEMINI, _CHAT, "gemini_native_to_openai_chat", "native_to_chat"),
    # The name reads the other way round; it is the specification's (contract §7).
    Translation(
        "T6", _GEMINI, _MESSAGES, "anthropic_messages_to_gemini_native", "native_to_messages"
    ),
)
# What the configuration may switch on.
SETTINGS = tuple(row.setting for row in _ROWS)

TRANSLATIONS: Mapping[tuple[Protocol, Protocol], Translation] = MappingProxyType(
    {(row.client, row.upstream): row for row in _ROWS}
)
BUILTIN_TOOLS = Translation(
    "built-in tools", _CHAT, RESPONSES.protocol, header="", setting="", closes_failures=True
)


@cache
def upstream_protocols(client: str, enabled: frozenset[str]) -> tuple[str, ...]:
    """The protocols that a client's may be translated to, the preferred first.

    `enabled` are settings, as in the configuration's `translations`.
    """
    found = [
        row for row in TRANSLATIONS.values() if row.client == client and row.setting in enabled
    ]
    found.sort(key=lambda row: not row.is_preferred)
    return tuple(row.upstream for row in found)


def translation_between(client: str, upstream: str) -> Translation:
    """The way from a client's protocol to an upstream's. Raises StopIteration where none is."""
    ways = (*TRANSLATIONS.values(), BUILTIN_TOOLS)
    return next(way for way in ways if (way.client, way.upstream) == (client, upstream))
