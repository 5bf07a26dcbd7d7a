"""Bedrock's invoke: claude's own messages, the model in the path, streams as Amazon's events."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from loadtests.simulator.answers import Answer
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.cloud import event_stream
from loadtests.simulator.cloud.sigv4 import refused, signed_by
from loadtests.simulator.dialects.base import Stream, encode
from loadtests.simulator.dialects.messages import MessagesDialect, read_messages
from loadtests.simulator.exchange import Exchange

VERSION: Final = "bedrock-2023-05-31"
PATH: Final = re.compile(r"/model/([^/]+)/(invoke|invoke-with-response-stream)")
EXCEPTIONS: Final = (
    "internalServerException",
    "modelStreamErrorException",
    "modelTimeoutException",
    "serviceUnavailableException",
    "throttlingException",
    "validationException",
)
_DATA: Final = re.compile(rb"data: (.*)\n")


class AwsFace:
    """Who may ask, and how errors look, on every wire of Bedrock."""

    stream_type = event_stream.CONTENT_TYPE
    uses_crlf = False

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def authenticate(self, exchange: Exchange) -> str:
        """The access key, or the bearer's."""
        scheme, _, key = exchange.header(b"authorization").decode("latin-1").partition(" ")
        if scheme == "Bearer" and key:
            return key
        now = self._clock()
        try:
            return signed_by(exchange, now=now)
        except Refusal as refusal:
            date = b"Date: %b\r\n" % formatdate(now, usegmt=True).encode()
            raise Refusal(refusal.status, refusal.message, lines=refusal.lines + date) from None

    def error(self, status: int, message: str) -> bytes:
        return encode({"message": message})

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        """An exception, whose kind may stand before its message."""
        kind, _, words = message.partition(": ")
        if kind not in EXCEPTIONS:
            kind, words = "modelStreamErrorException", message
        return [event_stream.exception(kind, encode({"message": words}))]


class BedrockDialect(AwsFace):
    """`POST /model/{modelId}/invoke` and `/invoke-with-response-stream`, for claude."""

    name = "bedrock-invoke"

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(clock)
        self._messages = MessagesDialect()

    def read(self, exchange: Exchange) -> Ask:
        found = PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        return read_messages(
            as_messages(
                exchange.body,
                VERSION,
                ("model", "stream"),
                model=unquote(found[1]),
                stream=found[2] != "invoke",
            )
        )

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        return of_host(self._messages.plain(ask, answer), "bdrk")

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        stream = self._messages.stream(ask, answer, is_finished=is_finished)
        frames = [_chunk(of_host(frame, "bdrk"), answer) for frame in stream.frames]
        return Stream(
            frames=frames,
            text_end=stream.text_end,
            more=lambda index: _chunk(stream.more(index), answer),
        )


def as_messages(
    body: bytes, version: str, refused_members: tuple[str, ...], **more: object
) -> bytes:
    """The body as the messages wire has it, of one as another host wants it; raises Refusal."""
    try:
        members: Any = msgspec.json.decode(body)
    except msgspec.DecodeError:
        members = None
    if not isinstance(members, dict):
        raise refused(400, "ValidationException", "Malformed input request: not a JSON object")
    if members.pop("anthropic_version", None) != version:
        raise refused(400, "ValidationException", "anthropic_version: Field required")
    for name in refused_members:
        if name in members:
            raise refused(
                400,
                "ValidationException",
                f"Malformed input request: #: extraneous key [{name}] is not permitted, please "
                "reformat your input and try again.",
            )
    members.pop("anthropic_beta", None)
    return encode({**members, **more})


def of_host(body: bytes, host: str) -> bytes:
    """A message, or its start, whose id states where it was made."""
    return body.replace(b'"id":"msg_', b'"id":"msg_%b_' % host.encode(), 1)


def _chunk(frame: bytes, answer: Answer) -> bytes:
    """An event of the messages wire as one of Amazon's; the last one reports the invocation."""
    found = _DATA.search(frame)
    assert found is not None, frame
    data = found[1]
    if data == b'{"type":"message_stop"}':
        metrics = {"invocationLatency": 100, "firstByteLatency": 50}
        if answer.usage is not None:
            metrics["inputTokenCount"] = answer.usage.input
            metrics["outputTokenCount"] = answer.usage.output
        data = encode({"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics})
    payload = {"bytes": b64encode(data).decode(), "p": "abcdefghijklmnop"[: len(data) % 16]}
    return event_stream.event("chunk", encode(payload))
