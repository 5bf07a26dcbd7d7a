"""The interfaces and common parts of codecs, which map a dialect to the canonical model and back.

For requests, whole responses and streams (`model.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from channels.dialects.token_counts import Usage
from channels.json.written import Written
from channels.translation.events import Event, TextRun
from channels.translation.losses import LossReport
from channels.translation.model import Request


class Metered(Interface):
    """The meter of a response: the usage that a translation states, as far as it is known."""

    @property
    def shown_usage(self) -> Usage | None: ...


class ResponseDecoder(Interface):
    """Decodes an upstream's response, given as the dialect's meter has read it.

    The meter has taken each event before. `take_event` and `end_stream` are for a stream and never
    raise; see `events.Ended`. `take_body` is for a whole response, and raises UpstreamMalformed.
    """

    def take_event(self, read: Any) -> list[Event]: ...

    def end_stream(self) -> list[Event]: ...

    def take_body(self, read: Any) -> list[Event]: ...


class ResponseEncoder(Interface):
    """Encodes a client's response, of a stream's events.

    A stream has no terminator and no finish reason without `Ended`; a whole response is returned
    for `Ended`.
    """

    def encode_event(self, event: Event) -> bytes: ...

    def encode_texts(self, texts: Sequence[bytes], characters: int) -> bytes | None:
        """Return the bytes of as many events of text, as those of a `TextRun`.

        None, and nothing happens, where they have to be encoded one by one.
        """


class MakesEncoder(Interface):
    """Makes the encoder of one response; `created` is a Unix second."""

    def __call__(
        self, *, id: str, created: int, model: str, include_usage: bool
    ) -> ResponseEncoder: ...


class EncodesRequest(Interface):
    """Returns the body for an upstream of the protocol, which may have further options.

    It reports what it could not express, and raises InvalidRequest if the conversation would change
    without it.
    """

    def __call__(
        self,
        request: Request,
        *,
        model: str,
        stream: bool,
        max_tokens: int | None,
        report: LossReport,
    ) -> Written: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codec:
    """A protocol on either side of a translation, streaming or not.

    `decode_request` raises InvalidRequest, as does `read_plain`: it decodes the bytes of what most
    clients send, quicker and to the same request, and returns None for other bodies. `tool_names`
    maps the names that `encode_request` changes to the client's own. `new_encoder` is for streams,
    `new_body_encoder` for whole responses. `keep_alive` is sent to a client while there is nothing
    else to send: what its readers skip. `keeps_tools`: `decode_request` takes `tools` as JSON text.
    `text_run` finds events of text in a piece of a stream that begins with an event; what precedes
    them are whole events. `pass_texts` tells a decoder how many characters it is not given.
    """

    decode_request: Callable[[Mapping[str, object]], Request]
    encode_request: EncodesRequest
    tool_names: Callable[[Request], Mapping[str, str]]
    new_decoder: Callable[[Metered], ResponseDecoder]
    new_encoder: MakesEncoder
    new_body_encoder: MakesEncoder
    keep_alive: bytes
    read_plain: Callable[[bytes], Request | None] | None = None
    keeps_tools: bool = False
    text_run: Callable[[bytes], TextRun | None] | None = None
    pass_texts: Callable[[Any, int], None] | None = None
