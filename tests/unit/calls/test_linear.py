"""What a body or an answer costs grows with its size and not faster, whatever its shape.

Counted are steps, of a body and of one of twice its size: for every protocol of a client over every
protocol of a channel, requests, whole answers and streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from channels.errors import InvalidRequest, UpstreamError
from channels.offload import jobs
from channels.translation import session
from gw.calls.stream import StreamPipeline
from loadtests.attacks.body_shapes import ANSWERS, HOSTILE_ANSWERS, SHAPES, WAYS, body_of
from tests.support.rows import each
from tests.support.steps import steps_of
from tests.unit.calls.stream_shapes import STREAMS
from tests.unit.calls.test_failure_classes import translated, untranslated
from tests.unit.calls.test_hostile_answers import REQUEST, new_blocks

BODY_BYTES = 6_000
EVENTS = 100
# Of twice as much; what is done once makes it less.
GROWTH_MAX = 2.2

CLIENTS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1beta/models/{}:generateContent": "native",
    "/v1/responses": "responses",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "chat": {"upstream_model": "u", "max_tokens_param": None, "default_max_tokens": 9},
    "messages": {"upstream_model": "u"},
    "native": {"upstream_model": "u", "default_max_tokens": 9},
    "responses": {"upstream_model": "u", "default_max_tokens": 9},
}
REQUESTS = [(shape, way) for shape, (path, *_) in SHAPES.items() for way in WAYS[path]]


def grows(work: Callable[[int], object], size: int) -> float:
    """How much more steps the double takes."""
    work(size)  # what is made once is made
    return steps_of(lambda: work(2 * size)) / steps_of(lambda: work(size))


def ask(shape: str, upstream: str, size: int) -> None:
    """Do all that is done with a request."""
    _, body = body_of(shape, "m", size)
    client = CLIENTS[SHAPES[shape][0]]
    named = {"model": "m", "stream": False} if client == "native" else {}
    try:
        jobs.read_request(body, client, named)
        if upstream == client:
            jobs.passthrough_job(body, client, named, OPTIONS[client])
        else:
            said = {"model": "u", "stream": False, "max_tokens": 9}
            session.translated_body(body, client, upstream, said, [])
    except (InvalidRequest, RecursionError):
        pass


@each("shape, upstream", REQUESTS)
def test_request_takes_steps_by_its_size(shape: str, upstream: str) -> None:
    assert grows(lambda size: ask(shape, upstream, size), BODY_BYTES) <= GROWTH_MAX


def clients_of(upstream: str) -> list[str | None]:
    """Who may get an answer of this protocol: a client of its own, and those of others."""
    return [None, *(client for client, other in session.TRANSLATIONS if other == upstream)]


def wholes() -> Iterator[tuple[str, str | None]]:
    for shape, (upstream, _) in HOSTILE_ANSWERS.items():
        for client in clients_of(upstream):
            yield shape, client


@pytest.mark.parametrize(("shape", "client"), wholes())
def test_whole_answer_takes_steps_by_its_size(shape: str, client: str | None) -> None:
    upstream, fill = HOSTILE_ANSWERS[shape]
    said = {"id": "a", "created": 1, "model": "m"}

    def read(size: int) -> None:
        jobs.metered(fill(size), upstream, client, {}, said)

    assert grows(read, BODY_BYTES) <= GROWTH_MAX


def streams() -> Iterator[tuple[str, str, str | None]]:
    for upstream, shapes in STREAMS.items():
        for shape in shapes:
            for client in clients_of(upstream):
                yield upstream, shape, client


@each("is_joined", [False, True])
@each("upstream, shape, client", streams())
def test_stream_takes_steps_by_its_events(
    upstream: str, shape: str, client: str | None, is_joined: bool
) -> None:
    way = untranslated(upstream) if client is None else translated(client, upstream)
    made = {count: STREAMS[upstream][shape](count) for count in (EVENTS, 2 * EVENTS)}
    end = b"data: [DONE]\n\n" if upstream == "chat" else b""

    def read(count: int) -> None:
        taken: StreamPipeline = new_blocks(way(REQUEST))
        events = [*made[count], *([end] if end else [])]
        try:
            for piece in [b"".join(events)] if is_joined else events:
                taken.take(piece)
            taken.last()
        except UpstreamError:
            pass

    assert grows(read, EVENTS) <= GROWTH_MAX


def test_every_protocol_of_a_channel_has_a_stream_and_an_answer() -> None:
    assert STREAMS.keys() == ANSWERS.keys()


def test_steps_of_a_search_within_a_search_are_seen() -> None:
    def square(size: int) -> None:
        found: list[int] = []
        for number in range(size):
            for other in found:
                assert other != number
            found.append(number)

    assert grows(square, 100) > 3
