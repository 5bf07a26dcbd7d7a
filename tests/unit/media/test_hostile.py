"""Responses and links of an upstream that are hostile, and the steps that reading takes."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.errors import InvalidRequest
from channels.media.dialects import DIALECTS
from channels.media.model import TASK_KINDS, Exchange, MediaResponse
from channels.media.replies import (
    Accepted,
    CatalogValue,
    Done,
    Failed,
    NotFound,
    Polled,
    RateLimited,
    Refused,
    Trouble,
    Unknown,
    Unusable,
)
from channels.media.requests import (
    AvatarRequest,
    AvatarVideo,
    MusicRequest,
    SpeechRequest,
    Submission,
    TranscriptRequest,
    VoiceRequest,
)
from channels.media.results import SpeechAudio
from gw.media.user_urls import fault_of
from tests.support.rows import each
from tests.support.steps import steps_of
from tests.unit.media.bodies import MATERIAL, PORTRAIT, READERS, TEXT, written
from tests.unit.media.exchanges import NOW, general, item, response, submit

# The members that the dialects look at, so that what is made up comes near a real answer.
NAMES = st.sampled_from(
    [
        *("id", "taskId", "task_id", "status", "code", "message", "data", "error", "content"),
        *("video_url", "videoUrl", "audio_url", "url", "result", "results", "tracks", "duration"),
        *("seconds", "frames", "framespersecond", "progress", "expires_at", "updated_at", "file"),
        *("file_id", "download_url", "base_resp", "status_code", "status_msg", "audio", "sid"),
        *("virtualmanId", "speakerId", "metadata", "prompt", "fail_reason", "errorCode"),
        *("errorMessage", "output_files", "videoStructInfo", "editInfo", "headerLayer", "canvas"),
        *("templates", "avatars", "voices", "text", "segments"),
    ]
)
WORDS = st.sampled_from(
    [
        "success",
        "Succeed",
        "SUCCEEDED",
        "failed",
        "queued",
        "ready",
        "https://a.example/x?Expires=1",
    ]
) | st.text(max_size=8)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | WORDS
    | st.sampled_from([10**400, "1" * 100, "\ud800", "a\x00b", "9" * 13])
)
VALUES: Any = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=6),
    max_leaves=25,
)


def as_json(value: Any) -> bytes:
    """As an upstream may write it: with NaN, surrogates and huge numbers."""
    return json.dumps(value).encode()


BODIES = VALUES.map(as_json) | st.binary(max_size=40)
STATUSES = st.sampled_from([200, 200, 200, 201, 204, 302, 400, 404, 429, 500, 504])
RESPONSES = st.builds(
    MediaResponse,
    status=STATUSES,
    headers=st.dictionaries(
        st.sampled_from(["retry-after", "content-type"]),
        st.sampled_from(["5", "-1", "soon", "1e999", "audio/mpeg", "application/json"]),
    ),
    body=BODIES,
    received_at=st.just(NOW),
    is_cut_off=st.booleans(),
)

SUBMISSIONS: list[tuple[str, Submission]] = [
    ("plain", general(item("text", "x"), item("image_url", "https://i"), registers_images=True)),
    ("plain", MusicRequest(model="m", prompt="x")),
    ("plain", SpeechRequest(model="m", input="x", voice="v")),
    ("plain", SpeechRequest(model="m", input="x", voice="v", is_async=True)),
    ("plain", VoiceRequest(model="m", name="n", audio_url="https://a")),
    ("plain", AvatarRequest(name="n", source_url="https://a")),
    ("plain", TranscriptRequest(model="m", url="https://a")),
    ("ark", general()),
    ("openai", general()),
    ("suno", MusicRequest(model="m", prompt="x")),
    ("minimax", SpeechRequest(model="m", input="x", voice="v")),
    ("minimax", SpeechRequest(model="m", input="x", voice="v", is_async=True)),
    ("shanjian", AvatarVideo(model="m", avatar="a", audio_url="https://a")),
    ("shanjian", VoiceRequest(model="m", name="n", audio_url="https://a")),
]
QUESTIONS: list[Callable[[Any], Exchange[Any] | None]] = [
    lambda dialect: dialect.templates("realMan"),
    lambda dialect: dialect.template("t"),
    lambda dialect: dialect.preset_avatars(),
    lambda dialect: dialect.preset_voices(),
]


def after(exchange: Exchange[Any], replies: list[MediaResponse]) -> Any:
    """The reply after some answers, or the exchange at which they end."""
    for result in replies:
        outcome = exchange.read(result)
        if not isinstance(outcome, Exchange):
            return outcome
        exchange = outcome
    return exchange


def check_storable(reply: Any) -> None:
    """Nothing in it that PostgreSQL or a JSON encoder refuses."""
    left = [msgspec.json.decode(msgspec.json.encode(reply))]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list):
            left += one
        assert not isinstance(one, str) or "\x00" not in one


@settings(max_examples=250, deadline=None)
@given(requested=st.sampled_from(SUBMISSIONS), replies=st.lists(RESPONSES, min_size=1, max_size=3))
def test_answers_to_a_submit(
    requested: tuple[str, Submission], replies: list[MediaResponse]
) -> None:
    name, submission = requested
    reply = after(submit(DIALECTS[name], submission), replies)
    assert isinstance(reply, Accepted | Done | Refused | Failed | Unknown | Exchange)
    if isinstance(reply, Refused):
        assert 400 <= reply.status < 500
    if isinstance(reply, Failed):
        assert 500 <= reply.status < 600
        assert reply.status != 504
    if isinstance(reply, Done) and isinstance(reply.result, SpeechAudio):
        assert b"".join(reply.result.pieces())
    elif not isinstance(reply, Exchange):
        check_storable(reply)


@settings(max_examples=300, deadline=None)
@given(
    name=st.sampled_from(sorted(DIALECTS)),
    kind=st.sampled_from(TASK_KINDS),
    replies=st.lists(RESPONSES, min_size=2, max_size=2),
)
def test_answers_to_a_poll(name: str, kind: Any, replies: list[MediaResponse]) -> None:
    reply = after(DIALECTS[name].poll(kind, "t"), replies)
    assert isinstance(reply, Polled | RateLimited | NotFound | Trouble | Unusable)
    if isinstance(reply, Polled):
        assert (reply.state == "succeeded") == (reply.result is not None)
        assert reply.seconds_ms is None or reply.seconds_ms > 0
        assert reply.progress is None or 0 <= reply.progress <= 100
    if isinstance(reply, RateLimited) and reply.retry_after_seconds is not None:
        assert 0 <= reply.retry_after_seconds <= 300
    check_storable(reply)


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(["plain", "shanjian"]),
    ask=st.sampled_from(QUESTIONS),
    replies=st.lists(RESPONSES, min_size=1, max_size=4),
)
def test_answers_to_a_question_for_a_list(
    name: str, ask: Callable[[Any], Exchange[Any] | None], replies: list[MediaResponse]
) -> None:
    exchange = ask(DIALECTS[name])
    assert exchange is not None
    reply = after(exchange, replies)
    assert isinstance(reply, CatalogValue | Refused | Failed | Exchange)
    if not isinstance(reply, Exchange):
        check_storable(reply)


# Of twice as much; what is done once makes it less.
GROWTH_MAX = 2.2
SIZE = 500

LONG_BODIES: dict[str, Callable[[int], dict[str, Any]]] = {
    "texts": lambda size: {"content": [TEXT] * size},
    "portraits": lambda size: {"content": [TEXT] + [PORTRAIT] * size},
    "materials": lambda size: {"materials": [MATERIAL] * size},
    "one long text": lambda size: {"content": [{**TEXT, "text": "a, {[" * size}]},
    "long fields": lambda size: dict.fromkeys(("input", "lyrics", "prompt", "name"), "x" * size),
    "brackets": lambda size: {"content": [[]] * size, "bgm": [[]] * size, "x": [[]] * size},
    "a long link": lambda size: {"source_url": "http://" + "a." * size, "url": "1." * size},
    "members of an item": lambda size: {"content": [{f"m{n}": n for n in range(size)} | TEXT]},
}
REPLIES: dict[str, Callable[[int], Any]] = {
    "lists": lambda size: (
        {
            name: [{"id": n, "name": "x"} for n in range(size)]
            for name in ("templates", "voices", "avatars", "tracks", "segments", "output_files")
        }
        | {"status": "succeeded", "text": "x", "video_url": "https://a.example"}
    ),
    "an envelope": lambda size: {
        "code": "Succeed",
        "data": {"status": "Succeed", "results": [{"id": n} for n in range(size)]},
    },
    "brackets": lambda size: {"status": [[]] * size, "data": [[]] * size},
    "text": lambda size: {"status": "failed", "error": {"message": "https://a " * size}},
}


def grows(work: Callable[[int], object]) -> float:
    work(SIZE)  # what is made once is made
    return steps_of(lambda: work(2 * SIZE)) / steps_of(lambda: work(SIZE))


@each("shape", LONG_BODIES)
@each("kind", READERS)
def test_bodies(kind: str, shape: str) -> None:
    bodies = {size: written(kind, **LONG_BODIES[shape](size)) for size in (SIZE, 2 * SIZE)}

    def work(size: int) -> None:
        with suppress(InvalidRequest):
            READERS[kind][1](bodies[size])

    assert grows(work) < GROWTH_MAX


@each("shape", REPLIES)
@each("name", sorted(DIALECTS))
def test_answers(name: str, shape: str) -> None:
    dialect = DIALECTS[name]
    exchanges: list[Exchange[Any] | None] = [
        *(dialect.poll(kind, "t") for kind in ("video", "music", "speech", "avatar")),
        dialect.templates("realMan"),
        dialect.template("t"),
        dialect.preset_avatars(),
        dialect.preset_voices(),
    ]
    responses = {n: response(body=msgspec.json.encode(REPLIES[shape](n))) for n in (SIZE, 2 * SIZE)}

    def work(size: int) -> None:
        for exchange in exchanges:
            if exchange is not None:
                exchange.read(responses[size])

    assert grows(work) < GROWTH_MAX


def test_links() -> None:
    def work(size: int) -> None:
        for part in ("a.", "1.", "0x1.", "xn--a.", "[", "@", ":", "%", "。", "/"):
            fault_of("http://" + part * size)

    assert grows(work) < GROWTH_MAX
