"""Vertex AI: gemini and claude behind Google's tokens, project, region and model in the path."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from loadtests.simulator.answers import Answer
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.cloud.bedrock import as_messages, of_host
from loadtests.simulator.cloud.issuer import Issuer
from loadtests.simulator.dialects.base import Stream
from loadtests.simulator.dialects.gemini import GeminiDialect, read_gemini
from loadtests.simulator.dialects.messages import MessagesDialect, read_messages
from loadtests.simulator.exchange import Exchange

VERSION: Final = "vertex-2023-10-16"
PATH: Final = re.compile(
    r"/v1/projects/([a-z0-9:.-]+)/locations/([a-z0-9-]+)/publishers/(google|anthropic)/models/"
    r"([^/]+):(generateContent|streamGenerateContent|rawPredict|streamRawPredict)"
)
UNAUTHENTICATED: Final = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
    "or other valid authentication credential."
)
_CHALLENGE: Final = b'WWW-Authenticate: Bearer realm="https://accounts.google.com/"\r\n'


def token_owner(issuer: Issuer, exchange: Exchange) -> str:
    """Whose token it is; raises Refusal."""
    owner = issuer.owner(exchange)
    if owner is None:
        raise Refusal(401, UNAUTHENTICATED, lines=_CHALLENGE)
    return owner


class VertexGemini(GeminiDialect):
    """`…/publishers/google/models/{model}:generateContent` and `:streamGenerateContent`."""

    name = "vertex-gemini"

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    def authenticate(self, exchange: Exchange) -> str:
        return token_owner(self._issuer, exchange)

    def read(self, exchange: Exchange) -> Ask:
        found = PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        is_stream = found[5] == "streamGenerateContent"
        return read_gemini(
            exchange.body,
            model=unquote(found[4]),
            is_stream=is_stream,
            as_array=is_stream and exchange.parameters().get("alt") != "sse",
        )


class VertexClaude(MessagesDialect):
    """`…/publishers/anthropic/models/{model}:rawPredict` and `:streamRawPredict`."""

    name = "vertex-claude"

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer
        self._google = GeminiDialect()

    def authenticate(self, exchange: Exchange) -> str:
        return token_owner(self._issuer, exchange)

    def read(self, exchange: Exchange) -> Ask:
        found = PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        is_stream = found[5] == "streamRawPredict"
        body = as_messages(exchange.body, VERSION, ("model",), model=unquote(found[4]))
        ask = read_messages(body)
        if ask.stream != is_stream:
            raise Refusal(400, "stream: has to be said in the body as in the path")
        return ask

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        return of_host(super().plain(ask, answer), "vrtx")

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        """The events, padded to hide the length of their text."""
        stream = super().stream(ask, answer, is_finished=is_finished)
        frames = [_padded(of_host(frame, "vrtx")) for frame in stream.frames]
        return Stream(frames=frames, text_end=stream.text_end, more=stream.more)

    def error(self, status: int, message: str) -> bytes:
        """What the model refuses is in its own words, all else in Google's."""
        if status in (400, 413, 529):
            return super().error(status, message)
        return self._google.error(status, message)

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        return [b"event: error\ndata: %b\n\n" % super().error(529, message)]


def _padded(frame: bytes) -> bytes:
    """An event with spaces before the end of its object."""
    assert frame.endswith(b"}\n\n"), frame
    return b"%b%b}\n\n" % (frame[:-3], b" " * (len(frame) % 9))
