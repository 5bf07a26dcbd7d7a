"""Collects a stream of chat-completions into one response.

Tools run by the provider require a stream on this protocol; a client that requested none receives
the response in one piece, once it is complete and settled.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Mapping
from typing import Any

import msgspec

from channels.errors import UpstreamMalformed
from channels.http.sse import SseSplitter
from gw.api.response_writer import HandlerWriter
from gw.calls.chat import TIMED_OUT
from gw.errors import UPSTREAM_TIMEOUT, GatewayError
from gw.upstream_errors import from_upstream

_CUT = "The upstream ended its answer before it was complete."
_TOO_LARGE = "The upstream's answer is too large."
_DONE = b"[DONE]"


class CollectingWriter:
    """A response writer that collects a stream; `deliver` sends the result.

    A stream longer than `bytes_max` is a failed one.
    """

    sends_at_once = False

    def __init__(self, writer: HandlerWriter, *, bytes_max: int) -> None:
        self._writer = writer
        self._room = bytes_max
        self._splitter = SseSplitter()
        self._headers: Mapping[str, str] = {}
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._error: str | None = None
        self._is_done = False

    @property
    def client_gone(self) -> bool:
        return self._writer.client_gone

    def hold_decided(self) -> None:
        self._writer.hold_decided()

    def keep_header(self, name: str, value: str) -> None:
        self._writer.keep_header(name, value)

    def forget_request(self) -> None:
        self._writer.forget_request()

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        self._headers = headers

    def write(self, block: bytes) -> Future[None] | None:
        self._room -= len(block)
        if self._room < 0:
            self._choices.clear()
            raise UpstreamMalformed(_TOO_LARGE)
        for event in self._splitter.feed(block):
            if event.data == _DONE:
                self._is_done = True
            elif event.data is not None:
                self._take(msgspec.json.decode(event.data))
        return None

    def finish(self, block: bytes) -> None:
        if self._room >= 0:
            self.write(block)

    def break_off(self, block: bytes) -> None:
        self.finish(block)

    def send(self, body: bytes) -> None:
        raise AssertionError("what is asked for as a stream comes as one")

    def deliver(self) -> None:
        """Send the response. Raises GatewayError if the stream failed, which is settled."""
        if self._room < 0:
            raise from_upstream(502, _TOO_LARGE)
        if self._error == TIMED_OUT:
            raise GatewayError(UPSTREAM_TIMEOUT, self._error)
        if self._error is not None or not self._is_done:
            raise from_upstream(502, self._error or _CUT)
        choices = [
            {
                "index": index,
                "message": choice.message(),
                "finish_reason": choice.finish_reason,
            }
            for index, choice in sorted(self._choices.items())
        ]
        whole = {**self._whole, "object": "chat.completion", "choices": choices}
        self._writer.begin("application/json", self._headers)
        self._writer.send(msgspec.json.encode(whole))

    def _take(self, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            self._error = str(chunk["error"].get("message") or _CUT)
            return
        for choice in chunk.pop("choices", None) or ():
            self._take_choice(choice)
        self._whole |= {name: value for name, value in chunk.items() if value is not None}

    def _take_choice(self, choice: dict[str, Any]) -> None:
        kept = self._choices.setdefault(choice["index"], _Choice())
        kept.finish_reason = choice.get("finish_reason") or kept.finish_reason
        for name, piece in (choice.get("delta") or {}).items():
            if piece is not None:
                kept.pieces.setdefault(name, []).append(piece)


class _Choice:
    """The received part of one choice: the pieces of each member of its message, in order."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.pieces: dict[str, list[Any]] = {}

    def message(self) -> dict[str, Any]:
        members = {name: _joined(pieces) for name, pieces in self.pieces.items()}
        return {"content": None, **members, "role": "assistant"}


def _joined(pieces: list[Any]) -> Any:
    """Concatenate texts and lists; of other values the last one counts."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return [one for piece in pieces for one in piece]
    return pieces[-1]
