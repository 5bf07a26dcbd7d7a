"""The interfaces and common parts of codecs, which map a dialect to the canonical model and back.

For requests, whole responses and streams (`model.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Interface

from channels.translation.events import Event
from channels.translation.losses import LossReport
from channels.translation.model import Request, Response


class StreamDecoder(Interface):
    """Decodes the events of an upstream's stream, given as the dialect's meter has read them.

    `take_event` and `end_stream` never raise; see `events.Ended`. `take_body` is in place of both,
    for a whole response, and raises UpstreamMalformed.
    """

    def take_event(self, read: Any) -> list[Event]: ...

    def end_stream(self) -> list[Event]: ...

    def take_body(self, read: Any) -> list[Event]: ...


class StreamEncoder(Interface):
    """Encodes a client's stream. Without `Ended` there is no terminator and no finish reason."""

    def encode_event(self, event: Event) -> bytes: ...


class MakesEncoder(Interface):
    """Makes the encoder of one stream; `created` is a Unix second."""

    def __call__(
        self, *, id: str, created: int, model: str, include_usage: bool
    ) -> StreamEncoder: ...


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
    ) -> dict[str, Any]: ...


class EncodesResponse(Interface):
    """Returns a whole response for a client of the protocol. Raises nothing."""

    def __call__(self, response: Response, /, *, id: str, created: int, model: str) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Codec:
    """A protocol on either side of a translation, streaming or not.

    `decode_request` raises InvalidRequest. `tool_names` maps the names that `encode_request`
    changes to the client's own. `keep_alive` is sent to a client while there is nothing else to
    send: what its readers skip.
    """

    decode_request: Callable[[Mapping[str, Any]], Request]
    encode_request: EncodesRequest
    tool_names: Callable[[Request], Mapping[str, str]]
    encode_response: EncodesResponse
    new_decoder: Callable[[], StreamDecoder]
    new_encoder: MakesEncoder
    keep_alive: bytes
