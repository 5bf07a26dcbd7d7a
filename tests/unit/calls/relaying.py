"""A stream's way through an attempt, from the upstream's bytes to the client's, without a call.

`gw/calls/stream.py` as an attempt uses it; what is left out is everything that
waits: no lease, no clock, no client.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from channels.dialects.table import CHAT_DIALECTS
from channels.errors import ErrorReported, UpstreamMalformed
from channels.exact_redaction import ExactRedaction
from channels.http.interfaces import UpstreamRequest
from channels.translation.paths import TRANSLATIONS, translation_between
from channels.translation.session import TranslatedCall
from gw.api.chat.gemini import ArrayStream
from gw.calls.chat_request import UpstreamPlan
from gw.calls.stream import StreamPipeline
from gw.calls.stream_events import Framing, SseFraming, TranslatedEvents

NO_SECRETS = ExactRedaction(())
BROKEN = "It broke off."
REQUEST = UpstreamRequest("POST", "http://upstream.example/", (), b"")
REQUESTED: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hello"}]},
    "messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 100},
    "native": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    "responses": {"input": "Hello"},
}


@dataclass(frozen=True)
class Way:
    """From a channel's protocol to a client's, as events or as one array.

    `runs_tools` is the way of the built-in tools.
    """

    client: str
    upstream: str
    is_array: bool = False
    runs_tools: bool = False

    def __str__(self) -> str:
        how = "-as-array" if self.is_array else "-with-tools" if self.runs_tools else ""
        return f"{self.client}-on-{self.upstream}{how}"


@dataclass(frozen=True)
class Relayed:
    """What the client got; `failed` is an error reported before anything else."""

    body: bytes
    is_complete: bool
    failed: str | None
    reading: tuple[object, ...]


PASSTHROUGH = [Way(name, name) for name in CHAT_DIALECTS] + [Way("native", "native", is_array=True)]
TRANSLATED = [Way(client, upstream) for client, upstream in TRANSLATIONS]
TRANSLATED.append(Way("chat", "responses", runs_tools=True))
TRANSLATED += [
    Way("native", way.upstream, is_array=True) for way in TRANSLATED if way.client == "native"
]


def relayed(way: Way, pieces: Iterable[bytes], *, asks_for_usage: bool = True) -> Relayed:
    """Everything that reaches the client of a stream that comes in these pieces."""
    dialect = CHAT_DIALECTS[way.upstream]
    meter = dialect.new_meter()
    framing: Framing = ArrayStream() if way.is_array else SseFraming()
    translated = None
    if way.client != way.upstream:
        translation = translation_between(way.client, way.upstream, runs_tools=way.runs_tools)
        translated = TranslatedCall(translation, REQUESTED[way.client])
        stream = translated.stream(
            meter,
            id="answer-1",
            created=1_700_000_000,
            model="m",
            include_usage=asks_for_usage,
            redact=str,
        )
        framing = TranslatedEvents(stream, framing, meter, has_terminator=dialect.has_terminator)
    blocks = StreamPipeline(
        meter,
        dialect,
        framing,
        forwards_usage=asks_for_usage,
        has_next=lambda: False,
        redaction=NO_SECRETS,
    )
    written: list[bytes] = []
    failed = None
    try:
        coming = iter(pieces)
        for piece in coming:
            written.append(blocks.take_piece(piece))
            if blocks.is_over:
                written.append(blocks.rest)
                written += coming if blocks.passes_rest_on else ()
                break
        else:
            written.append(blocks.last(has_proven_end=False) or b"")
    except ErrorReported as error:
        failed = error.members.message
    except UpstreamMalformed as error:
        failed = error.detail
    if meter.finished and failed is None:
        written.append(framing.end())
    elif any(written):
        written.append(framing.broken(BROKEN))
    read = (meter.usage, meter.partial_usage, meter.characters, meter.finish_reason)
    return Relayed(b"".join(written), meter.finished, failed, read)


def untranslated(protocol: str) -> Callable[[UpstreamRequest], UpstreamPlan]:
    """An upstream that speaks as its client does."""
    return lambda request: UpstreamPlan(request, CHAT_DIALECTS[protocol])


def translated(client: str, upstream: str) -> Callable[[UpstreamRequest], UpstreamPlan]:
    """An upstream of another protocol."""

    def plan(request: UpstreamRequest) -> UpstreamPlan:
        translation = translation_between(client, upstream)
        call = TranslatedCall(translation, REQUESTED[client])
        return UpstreamPlan(request, CHAT_DIALECTS[upstream], call)

    return plan
