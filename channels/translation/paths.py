"""Which translations there are, what they are called, and the codecs they are made of.

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
from typing import Any
from typing import Protocol as Interface

from channels.dialects.chat import codec as chat
from channels.dialects.gemini import codec as native
from channels.dialects.messages import codec as messages
from channels.dialects.responses import codec as responses
from channels.translation.losses import Report
from channels.translation.model import Answer, Event, Protocol, Request


class StreamDecoder(Interface):
    """Takes what was read of an upstream's stream, event by event, as its dialect's meter does.

    `take` and `end` never raise; see `model.Ended`.
    """

    def take(self, read: Any) -> list[Event]: ...

    def end(self) -> list[Event]: ...


class StreamEncoder(Interface):
    """Writes a client's stream. Without `Ended` there is no terminator and no finish."""

    def encode(self, event: Event) -> bytes: ...


class MakesDecoder(Interface):
    """A decoder class."""

    def __call__(self) -> StreamDecoder: ...


class MakesEncoder(Interface):
    """An encoder class; `created` is a Unix second."""

    def __call__(
        self, *, id: str, created: int, model: str, include_usage: bool
    ) -> StreamEncoder: ...


class StreamingUpstream(Interface):
    """What an upstream's protocol needs for a translation of streams: a module in this package.

    `encode_request` notes in the report what it could not say, and raises InvalidRequest for a
    conversation that would be another one without it. `tool_names` are the names that it changes,
    to the client's own.
    """

    @property
    def StreamDecoder(self) -> MakesDecoder: ...

    def tool_names(self, request: Request) -> Mapping[str, str]: ...

    def encode_request(
        self, request: Request, *, model: str, stream: bool, max_tokens: int | None, report: Report
    ) -> dict[str, Any]: ...


class Codec(StreamingUpstream, Interface):
    """A protocol on either side, streaming or not: a module in this package.

    `KEEP_ALIVE` is what a client is sent while there is nothing to say; empty where the protocol
    has nothing for it.

    `decode_request` raises InvalidRequest, `decode_answer` UpstreamMalformed; the encoders of
    answers raise nothing.
    """

    @property
    def KEEP_ALIVE(self) -> bytes: ...

    @property
    def StreamEncoder(self) -> MakesEncoder: ...

    def decode_request(self, body: Mapping[str, Any]) -> Request: ...

    def decode_answer(self, body: bytes) -> Answer: ...

    def encode_answer(self, answer: Answer, *, id: str, created: int, model: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Translation:
    """One path: from the protocol the client speaks to the one the channel does.

    `header` is the value of `X-Protocol-Translation`, `setting` its name in the configuration;
    the way of the built-in tools has neither, being none of the specification's paths.
    `closes_failures`: a stream that fails is closed by the gateway with an error of its own and the
    client's terminator; elsewhere it just ends (spec: Stream failure behaviour 1, 3).
    """

    path: str
    client: Protocol
    upstream: Protocol
    header: str
    setting: str
    closes_failures: bool = False


_ROWS = (
    Translation("T1", "chat", "messages", "openai_chat_to_anthropic_messages", "chat_to_messages"),
    Translation("T2", "chat", "native", "openai_chat_to_gemini_native", "chat_to_native"),
    Translation("T3", "messages", "chat", "anthropic_messages_to_openai_chat", "messages_to_chat"),
    Translation("T4", "native", "chat", "gemini_native_to_openai_chat", "native_to_chat"),
    # The name reads the other way round; it is the specification's (contract §7).
    Translation(
        "T6", "native", "messages", "anthropic_messages_to_gemini_native", "native_to_messages"
    ),
)

TRANSLATIONS: Mapping[tuple[Protocol, Protocol], Translation] = MappingProxyType(
    {(row.client, row.upstream): row for row in _ROWS}
)
BUILTIN_TOOLS = Translation(
    "built-in tools", "chat", "responses", header="", setting="", closes_failures=True
)

_CODECS: Mapping[Protocol, Codec] = MappingProxyType(
    {"chat": chat, "messages": messages, "native": native}
)


# Where a channel speaks several protocols that a client's can be translated to, the first of these
# is taken: an upstream that takes native-content has it as its own, and what it takes beside that
# is a conversion of its own making (spec: Protocol compatibility).
_PREFERRED: tuple[Protocol, ...] = ("native", "chat", "messages", "responses")


@cache
def upstream_protocols(client: str, enabled: frozenset[str]) -> tuple[str, ...]:
    """The protocols that a client's may be translated to, the preferred first.

    `enabled` are settings, as in the configuration's `translations`.
    """
    found = [
        row.upstream
        for row in TRANSLATIONS.values()
        if row.client == client and row.setting in enabled
    ]
    return tuple(sorted(found, key=_PREFERRED.index))


def translation_between(client: str, upstream: str) -> Translation:
    """The way from a client's protocol to an upstream's. Raises StopIteration where none is."""
    ways = (*TRANSLATIONS.values(), BUILTIN_TOOLS)
    return next(way for way in ways if (way.client, way.upstream) == (client, upstream))


def codec(protocol: Protocol) -> Codec:
    """The codec of a protocol that takes part in a translation."""
    return _CODECS[protocol]


def streaming_upstream(protocol: Protocol) -> StreamingUpstream:
    """What is needed of the upstream's protocol where the answer is a stream."""
    return responses if protocol == "responses" else _CODECS[protocol]
