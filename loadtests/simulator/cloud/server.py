"""From a request to a cloud to its dialect, or to the script of what is no chat: tokens, lists.

Vertex AI is gemini and claude behind Google's tokens, project, region and model in the path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.cloud.bedrock import (
    CONVERSE_PATH,
    INVOKE_PATH,
    AwsFace,
    BedrockDialect,
    ConverseDialect,
    as_messages,
    of_host,
)
from loadtests.simulator.cloud.credentials import (
    ENTRA_PREFIX,
    GOOGLE_ACCOUNT,
    TOKEN_SECONDS,
    Issuer,
    TokenRefusal,
    client_of,
)
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import JSON, Dialect, Stream, encode
from loadtests.simulator.dialects.chat import ChatDialect
from loadtests.simulator.dialects.gemini import GeminiDialect
from loadtests.simulator.dialects.messages import MessagesDialect, read_messages
from loadtests.simulator.directives import FaultBook
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.script import Script

VERTEX_VERSION: Final = "vertex-2023-10-16"
VERTEX_PATH: Final = re.compile(
    r"/v1/projects/([a-z0-9:.-]+)/locations/([a-z0-9-]+)/publishers/(google|anthropic)/models/"
    r"([^/]+):(generateContent|streamGenerateContent|rawPredict|streamRawPredict)"
)
UNAUTHENTICATED: Final = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie "
    "or other valid authentication credential."
)
_CHALLENGE: Final = b'WWW-Authenticate: Bearer realm="https://accounts.google.com/"\r\n'


class GoogleFace(Dialect):
    """Who may ask on every wire of Vertex AI: whoever has a token."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    def authenticate(self, exchange: Exchange) -> str:
        """The token's owner."""
        owner = self._issuer.owner(exchange)
        if owner is None:
            raise Refusal(401, UNAUTHENTICATED, lines=_CHALLENGE)
        return owner


class VertexGemini(GoogleFace, GeminiDialect):
    """`…/publishers/google/models/{model}:generateContent` and `:streamGenerateContent`."""

    name = "vertex-gemini"


class VertexClaude(GoogleFace, MessagesDialect):
    """`…/publishers/anthropic/models/{model}:rawPredict` and `:streamRawPredict`."""

    name = "vertex-claude"

    def read(self, exchange: Exchange) -> Ask:
        found = VERTEX_PATH.fullmatch(exchange.path)
        assert found is not None, exchange
        is_stream = found[5] == "streamRawPredict"
        body = as_messages(exchange.body, VERTEX_VERSION, ("model",), model=unquote(found[4]))
        ask = read_messages(body)
        if ask.stream != is_stream:
            raise Refusal(400, "stream: has to be said in the body as in the path")
        return ask

    def plain(self, ask: Ask, response: Completion) -> bytes:
        return of_host(super().plain(ask, response), "vrtx")

    def stream(self, ask: Ask, response: Completion) -> Stream:
        """The events, padded to hide the length of their text."""
        stream = super().stream(ask, response)
        frames = [_padded(of_host(frame, "vrtx")) for frame in stream.frames]
        return Stream(frames=frames, text_end=stream.text_end, more=stream.more)

    def error(self, status: int, message: str) -> bytes:
        """What the model refuses is in its own words, all else in Google's."""
        if status in (400, 413, 529):
            return super().error(status, message)
        return GeminiDialect().error(status, message)


def _padded(frame: bytes) -> bytes:
    """An event with spaces before the end of its object."""
    assert frame.endswith(b"}\n\n"), frame
    return b"%b%b}\n\n" % (frame[:-3], b" " * (len(frame) % 9))


ENTRA_PATH: Final = re.compile(r"/[\w.-]+/oauth2/v2\.0/token")
GOOGLE_PATH: Final = "/token"
AWS_MODELS: Final = "/foundation-models"
GOOGLE_MODELS: Final = "/v1beta1/publishers/google/models"
AZURE_CHAT: Final = b"/openai/v1/chat/completions"


class AzureChat(ChatDialect):
    """Azure OpenAI's v1: a key in a header of its own, or a token of Entra ID.

    Groq has the same path: a bearer's key that is no such token is one of Groq's.
    """

    def __init__(self, issuer: Issuer) -> None:
        super().__init__()
        self._issuer = issuer

    def authenticate(self, exchange: Exchange) -> str:
        key = exchange.header(b"api-key").decode("latin-1").strip()
        if found := key or self._issuer.owner(exchange):
            return found
        if not exchange.bearer.startswith(ENTRA_PREFIX):
            return super().authenticate(exchange)
        raise Refusal(
            401,
            "Access denied due to invalid subscription key or wrong API endpoint. Make sure to "
            "provide a valid key for an active subscription.",
        )


class CloudServer:
    """Every wire of the clouds, on one book of tokens."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.issuer = Issuer(clock)
        self._aws = AwsFace(clock)
        self._bedrock = BedrockDialect(clock)
        self._converse = ConverseDialect(clock)
        self._gemini = VertexGemini(self.issuer)
        self._claude = VertexClaude(self.issuer)
        self.routes: Mapping[bytes, Dialect] = {AZURE_CHAT: AzureChat(self.issuer)}

    def reset(self) -> None:
        """Tokens are handed out as usual again; those that were stay good."""
        self.issuer.seconds = TOKEN_SECONDS

    def dialect(self, path: str) -> Dialect | None:
        """The dialect of a path with a model in it; None for one that is none of ours."""
        if INVOKE_PATH.fullmatch(path):
            return self._bedrock
        if CONVERSE_PATH.fullmatch(path):
            return self._converse
        if found := VERTEX_PATH.fullmatch(path):
            return self._gemini if found[3] == "google" else self._claude
        return None

    def begin(self, exchange: Exchange, faults: FaultBook) -> Script | None:
        """The script of what is no chat; None for a path that is none of ours."""
        path, method = exchange.path, exchange.method
        if method == "POST" and path == GOOGLE_PATH:
            exchange.api_key = GOOGLE_ACCOUNT
            return self._token(exchange, faults, "google-token", self.issuer.google)
        if method == "POST" and ENTRA_PATH.fullmatch(path):
            exchange.api_key = client_of(exchange)
            return self._token(exchange, faults, "entra-token", self.issuer.entra)
        if method == "GET" and path == AWS_MODELS:
            summary = {"modelId": "anthropic.claude-sim-v1:0", "providerName": "Anthropic"}
            return _list(exchange, self._aws, {"modelSummaries": [summary]})
        if method == "GET" and path == GOOGLE_MODELS:
            named = {"name": "publishers/google/models/gemini-sim"}
            return _list(exchange, self._gemini, {"publisherModels": [named]})
        return None

    def _token(
        self,
        exchange: Exchange,
        faults: FaultBook,
        protocol: str,
        issue: Callable[[Exchange], dict[str, Any]],
    ) -> Script:
        exchange.protocol = protocol
        directive = directives.merge(faults.take(exchange.api_key))
        if instead := script.instead_script(_oauth_error, directive):
            return instead
        try:
            body = issue(exchange)
        except TokenRefusal as refusal:
            return script.body_script(refusal.status, directive, refusal.body or b"", JSON)
        return script.body_script(200, directive, encode(body), JSON)


def _list(exchange: Exchange, dialect: Dialect, body: dict[str, Any]) -> Script:
    exchange.protocol = "models"
    try:
        exchange.api_key = dialect.authenticate(exchange)
    except Refusal as refusal:
        return script.refusal_script(dialect, refusal)
    return script.body_script(200, directives.ORDINARY, encode(body), JSON)


def _oauth_error(status: int, message: str) -> bytes:
    return encode({"error": "temporarily_unavailable", "error_description": message})
