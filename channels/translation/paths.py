"""The translations and their names (reference 3.1).

Each is a row; the configuration
enables them (`translations` and `translate`, by `setting`); the router tries a translation after
the channels of the client's protocol. Besides those in the table, built-in tools of
chat-completions are translated to a channel's responses protocol, whatever the configuration
enables (reference 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from channels import families
from channels.translation.model import Protocol


@dataclass(frozen=True, slots=True)
class Translation:
    """One path: from the client's protocol to the channel's.

    `header` is the value of `X-Protocol-Translation`, `setting` its name in the configuration; the
    path of the built-in tools has neither, because it is no translation to the client.
    `closes_failures`: the gateway closes a failed stream with an error of its own and the client's
    terminator; otherwise the stream just ends (reference 2.6).
    `is_preferred`: used if a channel supports several protocols that a client's can be translated
    to; otherwise the first in the table. native-content is preferred because an upstream that
    supports it implements the others by its own conversion (reference 4.4).
    """

    path: str
    client: Protocol
    upstream: Protocol
    header: str
    setting: str
    closes_failures: bool = False
    is_preferred: bool = False


_CHAT, _MESSAGES, _GEMINI = (
    families.CHAT.protocol,
    families.MESSAGES.protocol,
    families.GEMINI.protocol,
)
_RESPONSES = families.RESPONSES.protocol
_ROWS = (
    Translation("T1", _CHAT, _MESSAGES, "openai_chat_to_anthropic_messages", "chat_to_messages"),
    Translation(
        "T2", _CHAT, _GEMINI, "openai_chat_to_gemini_native", "chat_to_native", is_preferred=True
    ),
    Translation("T3", _MESSAGES, _CHAT, "anthropic_messages_to_openai_chat", "messages_to_chat"),
    Translation("T4", _GEMINI, _CHAT, "gemini_native_to_openai_chat", "native_to_chat"),
    # The name has the directions reversed; it is the documented one (reference 3.1).
    Translation(
        "T6", _GEMINI, _MESSAGES, "anthropic_messages_to_gemini_native", "native_to_messages"
    ),
    Translation(
        "T7",
        _RESPONSES,
        _GEMINI,
        "openai_responses_to_gemini_native",
        "responses_to_native",
        is_preferred=True,
    ),
    Translation("T8", _RESPONSES, _CHAT, "openai_responses_to_openai_chat", "responses_to_chat"),
    Translation(
        "T9",
        _RESPONSES,
        _MESSAGES,
        "openai_responses_to_anthropic_messages",
        "responses_to_messages",
    ),
    Translation("T10", _CHAT, _RESPONSES, "openai_chat_to_openai_responses", "chat_to_responses"),
    Translation(
        "T11",
        _MESSAGES,
        _RESPONSES,
        "anthropic_messages_to_openai_responses",
        "messages_to_responses",
    ),
    Translation(
        "T12", _GEMINI, _RESPONSES, "gemini_native_to_openai_responses", "native_to_responses"
    ),
)
# Settings of the configuration.
SETTINGS = tuple(row.setting for row in _ROWS)

TRANSLATIONS: Mapping[tuple[Protocol, Protocol], Translation] = MappingProxyType(
    {(row.client, row.upstream): row for row in _ROWS}
)
BUILTIN_TOOLS = Translation(
    "built-in tools", _CHAT, _RESPONSES, header="", setting="", closes_failures=True
)


@cache
def upstream_protocols(client: str, enabled: frozenset[str]) -> tuple[str, ...]:
    """Return the protocols that a client's may be translated to, the preferred first.

    `enabled` are settings, as in the configuration's `translations`.
    """
    found = [
        row for row in TRANSLATIONS.values() if row.client == client and row.setting in enabled
    ]
    found.sort(key=lambda row: not row.is_preferred)
    return tuple(row.upstream for row in found)


def translation_between(client: str, upstream: str, *, runs_tools: bool = False) -> Translation:
    """Return the translation from a client's protocol to an upstream's, or of built-in tools."""
    return BUILTIN_TOOLS if runs_tools else TRANSLATIONS[client, upstream]
