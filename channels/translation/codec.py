"""What a dialect is to a translation: the way to the canonical model (`model.py`) and back.

Of requests, whole responses and streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Protocol as Interface

from channels.translation.losses import LossReport
from channels.translation.model import Event, Request, Response


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
    """What an upstream's protocol needs for a translation of streams: `codec.py` of a dialect.

    `encode_request` notes in the report what it could not say, and raises InvalidRequest for a
    conversation that would be another one without it. `tool_names` are the names that it changes,
    to the client's own.
    """

    @property
    def StreamDecoder(self) -> MakesDecoder: ...

    def tool_names(self, request: Request) -> Mapping[str, str]: ...

    def encode_request(
        self,
        request: Request,
        *,
        model: str,
        stream: bool,
        max_tokens: int | None,
        report: LossReport,
    ) -> dict[str, Any]: ...


class Codec(StreamingUpstream, Interface):
    """A protocol on either side, streaming or not: `codec.py` of a dialect.

    `KEEP_ALIVE` is what a client is sent while there is nothing to say; empty where the protocol
    has nothing for it.

    `decode_request` raises InvalidRequest, `decode_response` UpstreamMalformed; the encoders of
    answers raise nothing.
    """

    @property
    def KEEP_ALIVE(self) -> bytes: ...

    @property
    def StreamEncoder(self) -> MakesEncoder: ...

    def decode_request(self, body: Mapping[str, Any]) -> Request: ...

    def decode_response(self, body: bytes) -> Response: ...

    def encode_response(
        self, response: Response, *, id: str, created: int, model: str
    ) -> bytes: ...
