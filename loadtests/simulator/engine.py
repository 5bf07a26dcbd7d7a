"""From a request to the script of its answer: route, key, directive, content. No sockets here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from loadtests.simulator import directives, script
from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.cloud.server import CloudServer
from loadtests.simulator.completions import compose
from loadtests.simulator.dialects.base import Dialect
from loadtests.simulator.dialects.chat import ChatDialect
from loadtests.simulator.dialects.decisions import DecisionsDialect
from loadtests.simulator.dialects.embeddings import EmbeddingsDialect, NativeEmbeddingsDialect
from loadtests.simulator.dialects.gemini import PLAIN, PREFIX, STREAMED, GeminiDialect
from loadtests.simulator.dialects.media import (
    EditsDialect,
    ImagesDialect,
    ModerationsDialect,
    RerankDialect,
    TranscriptionsDialect,
)
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import CompactDialect, ResponsesDialect
from loadtests.simulator.directives import Directive, DirectiveError, FaultBook, Layer
from loadtests.simulator.exchange import RING_REQUESTS, Exchange, Ring, Stats
from loadtests.simulator.providers.table import PROVIDERS, FaceDialect, Played, plain
from loadtests.simulator.script import Script
from loadtests.simulator.tasks.server import TaskServer

TASK_SECONDS: Final = 1.0  # that a task takes unless a directive states others
# Answers that are given again to the same request, and the longest body of one.
KNOWN_MAX, KNOWN_BYTES_MAX = 1024, 4096

# Whatever a request names is served; these are listed, in the forms of the four chat protocols.
MODELS = ("sim-model",)
_LISTS = ("openai", "anthropic", "gemini")


class Engine:
    """Everything the simulator knows and remembers, apart from its connections."""

    def __init__(
        self,
        seed: int,
        *,
        clock: Callable[[], float] = time.time,
        task_seconds: float = TASK_SECONDS,
        requests_kept: int = RING_REQUESTS,
        models: Sequence[str] = MODELS,
    ) -> None:
        self.seed = seed
        self.stats = Stats()
        self.tasks = TaskServer(seed, self.stats, clock=clock, task_seconds=task_seconds)
        self.cloud = CloudServer(clock)
        self.ring = Ring(requests=requests_kept)
        self.faults = FaultBook(seed)
        self._seed_key = b"%d" % seed
        self._played: dict[int, Played] = {}
        self._lists = {name: Played(plain(PROVIDERS[name], models)) for name in _LISTS}
        self._unknown: Dialect = ChatDialect()  # the shape of answers to unknown paths
        self._gemini: Dialect = GeminiDialect()
        self._vectors: Dialect = NativeEmbeddingsDialect()
        self._routes: dict[bytes, Dialect] = {
            b"/v1/images/generations": ImagesDialect(self.tasks.files),
            b"/v1/images/edits": EditsDialect(self.tasks.files),
            b"/v1/audio/transcriptions": TranscriptionsDialect(),
            b"/v1/rerank": RerankDialect(),
            b"/v1/moderations": ModerationsDialect(),
            **self.cloud.routes,
        }
        # Providers have these behind paths of their own.
        self._endings: dict[bytes, Dialect] = {
            b"/chat/completions": ChatDialect(),
            b"/messages": MessagesDialect(),
            b"/responses": ResponsesDialect(),
            b"/responses/compact": CompactDialect(),
            b"/embeddings": EmbeddingsDialect(),
            b"/decisions": DecisionsDialect(),
        }
        # Of these the answer follows from path, version and body alone, without a directive.
        self._plain = {self._gemini, *self._endings.values()}
        self._known: dict[tuple[Dialect, bytes, bytes, bytes], Script] = {}

    def play(self, port: int, provider: str) -> None:
        """From now on a port is this provider; raises KeyError for one that is not in the table."""
        self._played[port] = Played(PROVIDERS[provider])

    def reset(self) -> None:
        """Back to the state after the start: no faults, no memory, counters at zero.

        Ports go on playing the providers that they play.
        """
        self.stats.reset()
        self.ring.clear()
        self.faults = FaultBook(self.seed)
        self.tasks.book.clear()
        self.cloud.reset()

    def begin(self, exchange: Exchange) -> Script:
        """Count the request in and decide its delivery; the delivery counts it out."""
        played = self._played.get(exchange.port)
        if exchange.method == "GET":
            listed = (played or self._lister(exchange)).listing(exchange, self.faults)
            if listed is not None:
                return self._counted(exchange, listed)
        dialect = self._route(exchange.target) if played is None else played.dialect(exchange.path)
        if dialect is None and played is None:
            found = self.tasks.begin(exchange, self.faults)
            if found is None:
                found = self.cloud.begin(exchange, self.faults)
            if found is not None:
                return self._counted(exchange, found)
        exchange.protocol = "unknown" if dialect is None else dialect.name
        try:
            if dialect is None:
                raise Refusal(404, f"Unknown path {exchange.path}.")
            if exchange.method != "POST":
                raise Refusal(405, f"Method {exchange.method} is not allowed here.")
            exchange.api_key = dialect.authenticate(exchange)
            found = self._respond(exchange, dialect)
        except Refusal as refusal:
            shape = dialect or self._unknown
            found = script.refusal_script(shape, refusal)
        return self._counted(exchange, found)

    def _lister(self, exchange: Exchange) -> Played:
        """Whose form a list of models has on a port that plays nobody: by its key."""
        if exchange.header(b"x-goog-api-key"):
            return self._lists["gemini"]
        return self._lists["anthropic" if exchange.header(b"x-api-key") else "openai"]

    def _counted(self, exchange: Exchange, found: Script) -> Script:
        exchange.status = found.status
        self.stats.began(exchange)
        self.ring.add(exchange)
        return found

    def _route(self, target: bytes) -> Dialect | None:
        path = target.partition(b"?")[0]
        if path.startswith(PREFIX) and path.endswith((PLAIN, STREAMED)):
            return self._gemini
        if path.startswith(PREFIX) and path.endswith(NativeEmbeddingsDialect.ACTIONS):
            return self._vectors
        by_ending = (one for ending, one in self._endings.items() if path.endswith(ending))
        return (
            self._routes.get(path)
            or self.cloud.dialect(path.decode("latin-1"))
            or next(by_ending, None)
        )

    def _respond(self, exchange: Exchange, dialect: Dialect) -> Script:
        faults = self.faults.take(exchange.api_key)
        version = exchange.header(b"anthropic-version")
        request = (dialect, exchange.target, version, exchange.body)
        if not faults and (known := self._known.get(request)) is not None:
            return known
        ask = dialect.read(exchange)
        own = self._own_layers(ask)
        directive = directives.merge([*faults, *self.faults.own(own)])
        directive = _situated(directive, dialect, ask.model, exchange.api_key)
        response = compose(ask, directive, self._seed_key, exchange.body)
        found = script.response_script(dialect, ask, response, directive)
        is_plain = dialect in self._plain and not (faults or own) and found.whole is not None
        if is_plain and len(exchange.body) <= KNOWN_BYTES_MAX:
            if len(self._known) == KNOWN_MAX:
                self._known.clear()
            self._known[request] = found
        return found

    def _own_layers(self, ask: Ask) -> list[Layer]:
        """The request's directives, the one in its text first and so the weaker."""
        layers: list[Layer] = []
        if directives.TEXT_MARK in ask.text:
            spoken, ask.text = directives.from_text(ask.text)
            if spoken is not None:
                if ask.tool_result is not None:  # it asked for the calls that were made by now
                    spoken = {name: one for name, one in spoken.items() if name != "tool_calls"}
                layers.append(spoken)
        if ask.tool_result is not None and directives.TEXT_MARK in ask.tool_result:
            served, ask.tool_result = directives.from_text(_plain(ask.tool_result))
            if served is not None:
                layers.append(served)
        if ask.sim is not None:
            layers.append(directives.parse(ask.sim))
        return layers


def _situated(directive: Directive, dialect: Dialect, model: str, key: str) -> Directive:
    """The directive with what its situation stands for; raises DirectiveError."""
    if isinstance(dialect, FaceDialect):
        return dialect.situated(directive, model, key)
    if directive.situation is not None:
        raise DirectiveError("sim: 'situation' belongs to a provider, and this port plays none")
    return directive


def _plain(result: str) -> str:
    """The text of a tool's result, which some protocols and agents send as JSON."""
    try:
        value = json.loads(result)
    except ValueError:
        return result
    return "\n".join(_texts(value))


def _texts(value: object) -> Iterator[str]:
    """The texts in a value; a JSON text within JSON is beyond what agents send."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
