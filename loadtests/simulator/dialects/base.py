"""What every dialect offers to the rest of the simulator, and the helpers they share.

A dialect is pure: bytes in, bytes out. It frames server-sent events with LF; CRLF, chunking,
cuts and delays happen later (`script.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.completions import Completion
from loadtests.simulator.exchange import Exchange

TYPES: Final = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "model_not_found"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}


def error_type(status: int) -> tuple[str, str | None]:
    """The type and code that go with a status."""
    fallback = ("server_error", None) if status >= 500 else ("invalid_request_error", None)
    return TYPES.get(status, fallback)


def error_body(status: int, message: str) -> bytes:
    kind, code = error_type(status)
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


T = TypeVar("T")

EVENT_STREAM: Final = b"text/event-stream; charset=utf-8"
JSON: Final = b"application/json"

encode = msgspec.json.encode


@dataclass(slots=True)
class Stream:
    """The frames of one streamed answer.

    `text_end` is the index after the last text delta: an endless answer goes on from there with
    `more(index)`, the frame of one more delta at that place.
    """

    frames: list[bytes]
    text_end: int
    more: Callable[[int], bytes]


class Dialect:
    """One protocol's wire; in what is not its own as most are."""

    name = ""
    stream_type = EVENT_STREAM  # content type of a stream
    uses_crlf = False  # what this upstream's own streams end lines with

    def authenticate(self, exchange: Exchange) -> str:
        """The upstream key of the request; raises Refusal 401 without one."""
        return bearer(exchange)

    def read(self, exchange: Exchange) -> Ask:
        """The request in the common shape; raises Refusal."""
        raise NotImplementedError

    def plain(self, ask: Ask, response: Completion) -> bytes:
        """The body of an answer that is not streamed."""
        raise NotImplementedError

    def stream(self, ask: Ask, response: Completion) -> Stream:
        """The frames of a streamed answer."""
        raise AssertionError("never streamed")

    def error(self, status: int, message: str) -> bytes:
        """The body of an error answer."""
        return error_body(status, message)

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        """The error events of a stream broken before frame `index`."""
        return [b"data: %b\n\n" % self.error(500, message)]


def decode(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a request body; raises Refusal 400 on broken JSON and wrong types."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise Refusal(400, f"Invalid request: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"We could not parse the JSON body of your request: {error}") from error


def bearer(exchange: Exchange) -> str:
    """The key of an `Authorization: Bearer` header; raises Refusal 401."""
    if not exchange.bearer:
        raise Refusal(401, "You didn't provide an API key in an Authorization: Bearer header.")
    return exchange.bearer


def named(event: str, data: dict[str, Any]) -> bytes:
    """One server-sent event with its name, in an `event:` line and as the data's `type`."""
    return b"event: %b\ndata: %b\n\n" % (event.encode(), encode({"type": event, **data}))


def parsed(arguments: str) -> Any:
    """Tool-call arguments as the object that they are; text that is not JSON stays text."""
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


def argument_pieces(arguments: str) -> list[str]:
    """Tool-call arguments in the pieces a stream carries them in; at least one, maybe empty."""
    return [arguments[at : at + 12] for at in range(0, len(arguments), 12)] or [""]
