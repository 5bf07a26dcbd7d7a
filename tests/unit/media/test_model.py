"""The parts of a media exchange: items, lists, prices, bodies that are large."""

import json
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from actors.wallet.money import MAX_NANO_USD
from actors.wallet.piece_prices import MediaPrice
from channels.errors import InvalidRequest, UpstreamCut, UpstreamError
from channels.json.weight import COUNTED_BYTES_MAX
from channels.media.canonical import ContentItem, GeneralVideo, Polled, SpeechAudio, VideoResult
from channels.media.dialects import DIALECTS
from channels.media.model import Exchange, MediaRequest, MediaResponse, perform
from channels.offload.jobs import read_submission, submission_body
from channels.prices import PriceSpec
from channels.registry import ModelSpec, VideoSpec
from gw.media.film_length import priced_resolution
from gw.media.general_videos import read_general
from gw.media.logged_parameters import parameters_of
from gw.media.task_list import MUSIC, SPEECH, VIDEOS, ListKind, TaskListQuery, read_list
from gw.media.videos import read_video
from loadtests.attacks.body_shapes import FILMS, film_of
from tests.support.rows import cases, each
from tests.support.specs import make_model
from tests.support.steps import steps_of
from tests.unit.media.asking import ABSENT, READERS, TEXT, read, written


def asked(path: str) -> MediaRequest:
    return MediaRequest(method="GET", path=path)


def answered(body: bytes) -> MediaResponse:
    return MediaResponse(status=200, headers={}, body=body, received_at=0.0)


class Upstream:
    """Answers in turn, or raises; notes what it is asked and how long it is waited for."""

    def __init__(self, *answers: bytes | UpstreamError) -> None:
        self._answers = list(answers)
        self.log: list[str | float] = []

    async def send(self, request: MediaRequest, limit: int) -> MediaResponse:
        self.log.append(f"{request.path} {limit}")
        answer = self._answers.pop(0)
        if isinstance(answer, UpstreamError):
            raise answer
        return answered(answer)

    async def sleep(self, seconds: float) -> None:
        self.log.append(seconds)


def ends_with_its_body(path: str, *, after: float = 0.0, repeats: bool = False) -> Exchange[bytes]:
    return Exchange(
        request=asked(path),
        read=lambda response: response.body,
        response_bytes_max=7,
        after_seconds=after,
        repeats=repeats,
    )


async def test_exchange_goes_on_where_its_response_says_so() -> None:
    upstream = Upstream(b"first", b"second")
    first: Exchange[bytes] = Exchange(
        request=asked("/a"), read=lambda _: ends_with_its_body("/b", after=1.5)
    )
    assert await perform(first, upstream.send, upstream.sleep, body_bytes_max=9) == b"second"
    assert upstream.log == ["/a 9", 1.5, "/b 7"]


async def test_lost_connection_ends_an_exchange_unless_it_repeats() -> None:
    lost = UpstreamCut("gone")
    with pytest.raises(UpstreamCut):
        await perform(
            ends_with_its_body("/a"), Upstream(lost).send, Upstream().sleep, body_bytes_max=9
        )
    upstream = Upstream(lost, b"done")
    polling = ends_with_its_body("/a", after=1.0, repeats=True)
    assert await perform(polling, upstream.send, upstream.sleep, body_bytes_max=9) == b"done"
    assert upstream.log == [1.0, "/a 7", 1.0, "/a 7"]


def test_exchange_that_repeats_without_a_pause_is_a_mistake() -> None:
    with pytest.raises(AssertionError):
        ends_with_its_body("/a", repeats=True)


def test_success_without_a_result_cannot_be_said() -> None:
    with pytest.raises(AssertionError):
        Polled(state="succeeded", word="done")
    with pytest.raises(AssertionError):
        Polled(state="failed", word="error")
    with pytest.raises(AssertionError):
        Polled(state="running", word="running", result=VideoResult(url="https://a.example"))


def test_recording_comes_in_pieces_decoded_one_by_one() -> None:
    sound = bytes(range(256)) * 3
    as_hex = SpeechAudio(content_type="audio/mpeg", data=sound.hex().encode(), is_hex=True)
    pieces = list(as_hex.pieces(100))
    assert b"".join(pieces) == sound
    assert max(map(len, pieces)) == 100
    plain = SpeechAudio(content_type="audio/mpeg", data=sound)
    assert b"".join(plain.pieces(100)) == sound


def test_item_that_points_elsewhere_keeps_its_other_members() -> None:
    sent = b'{"type":"image_url","role":"first","image_url":{"detail":"high","url":"https://a/b"}}'
    moved = ContentItem("image_url", "https://a/b", Raw(sent)).with_url("asset://é")
    assert moved.value == "asset://é"
    assert msgspec.json.decode(moved.object) == {
        "type": "image_url",
        "role": "first",
        "image_url": {"detail": "high", "url": "asset://é"},
    }


def test_general_video_knows_its_texts_and_images() -> None:
    items = (("text", "a"), ("image_url", "https://i"), ("video_url", "https://v"), ("text", "b"))
    video = GeneralVideo(
        model="m",
        content=tuple(ContentItem(kind, value, Raw(b"{}")) for kind, value in items),  # type: ignore[arg-type]
    )
    assert (video.texts(), video.images()) == (["a", "b"], ["https://i"])


# --- The query of a list of tasks ---

EVERYTHING = TaskListQuery(limit=30, states=frozenset(), before=None)
ID = "vid_" + "0a" * 16


@cases("query", {}, {"limit": "", "status": "", "before": ""}, {"x": "1"})
def test_nothing_asked_is_everything(query: dict[str, str]) -> None:
    assert read_list(query, VIDEOS) == EVERYTHING


@cases(
    "text, limit", ("1", 1), ("30", 30), ("100", 100), ("101", 100), ("0099", 99), ("9" * 500, 100)
)
def test_limit(text: str, limit: int) -> None:
    assert read_list({"limit": text}, VIDEOS).limit == limit


@cases("text", "0", "00", "-1", "1.5", "+5", "ten", " 5", "١", "0x5", "1e2")
def test_limit_that_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"limit": text}, VIDEOS)
    assert caught.value.param == "limit"


@cases(
    "kind, text, states",
    (VIDEOS, "queued", {"queued"}),
    (VIDEOS, "queued, running,", {"queued", "running"}),
    (VIDEOS, "all", set()),
    (VIDEOS, "failed,all", set()),
    (VIDEOS, "queued,running,succeeded,failed,expired,cancelled", set(VIDEOS.states)),
    (MUSIC, "processing,cancelled", {"processing", "cancelled"}),
    (SPEECH, "pending", {"pending"}),
    (SPEECH, ",", set()),
)
def test_states(kind: ListKind, text: str, states: set[str]) -> None:
    assert read_list({"status": text}, kind).states == states


@cases(
    "kind, text",
    (VIDEOS, "processing"),
    (VIDEOS, "Queued"),
    (VIDEOS, "all,odd"),
    (MUSIC, "queued"),
    (SPEECH, "expired"),
    (SPEECH, "\x00"),
    (SPEECH, "x" * 10_000),
)
def test_state_of_no_list(kind: ListKind, text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"status": text}, kind)
    assert caught.value.param == "status"
    assert len(caught.value.message) < 300


def test_before() -> None:
    assert read_list({"before": ID}, VIDEOS).before == ID


@cases("text", "5", ID[:-1], ID.upper(), ID + "0", ID.replace("vid", "mus"))
def test_before_that_is_no_task_of_the_list(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_list({"before": text}, VIDEOS)
    assert caught.value.param == "before"


# --- What media cost ---

BY_RESOLUTION = {"1080p": Decimal("0.2"), "max": Decimal("0.3"), "standard": Decimal("0.05")}


def film(**changes: Any) -> ModelSpec:
    fields: dict[str, Any] = {
        "id": "film",
        "endpoint_type": "videos_generations",
        "price": PriceSpec(per_second=Decimal("0.1"), per_second_by_resolution=BY_RESOLUTION),
    }
    return make_model(**(fields | changes))


@cases(
    "kind, resolution, nano_usd_per_second",
    ("general", ABSENT, 100_000_000),
    ("general", "720p", 100_000_000),
    ("general", "1080p", 200_000_000),
    ("general", "1080P", 100_000_000),
    ("dh-avatar", ABSENT, 100_000_000),
    ("dh-motion", ABSENT, 50_000_000),
    ("dh-motion", "fast", 100_000_000),
    ("dh-motion", "max", 300_000_000),
)
def test_price_follows_the_resolution(kind: str, resolution: Any, nano_usd_per_second: int) -> None:
    request = read(kind, resolution=resolution)
    price = MediaPrice.of(film(), resolution=priced_resolution(request))
    assert price.cost_nano_usd(1000) == nano_usd_per_second


prices = st.decimals(min_value=0, max_value=100, places=9)
multipliers = st.sampled_from([Decimal(1), Decimal("0.6"), Decimal("0.333333333333"), Decimal(3)])


@given(price=prices, multiplier=multipliers, milliseconds=st.integers(0, 86_400_000))
def test_cost_is_the_exact_product_rounded_once(
    price: Decimal, multiplier: Decimal, milliseconds: int
) -> None:
    model = film(price=PriceSpec(per_second=price), multiplier=multiplier)
    exact = Fraction(price) * Fraction(multiplier) * Fraction(milliseconds, 1000) * 10**9
    cost = MediaPrice.of(model).cost_nano_usd(milliseconds)
    assert cost == min((exact + Fraction(1, 2)).__floor__(), MAX_NANO_USD)


@given(price=prices, characters=st.integers(1, 50_000))
def test_speech_costs_by_the_character(price: Decimal, characters: int) -> None:
    model = film(endpoint_type="audio_speech", price=PriceSpec(per_character=price))
    exact = Fraction(price) * characters * 10**9
    cost = MediaPrice.of(model).cost_nano_usd(characters)
    assert cost == (exact + Fraction(1, 2)).__floor__()


# --- Large bodies of media endpoints ---

SIZE = 3 * 2**20
WIRES = ("plain", "ark", "openai")
# What a request may take of the pipe to the helper process and back.
KEPT_BYTES = 4096
ARGUMENTS = ("film", VideoSpec())
GROWTH_MAX = 2.2

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * SIZE}}


def large_film(**fields: Any) -> bytes:
    return json.dumps({"model": "film", "content": [TEXT, IMAGE], "duration": 5} | fields).encode()


@each("kind", READERS)
def test_every_request_comes_back_from_another_process(kind: str) -> None:
    made = read(kind)
    assert pickle.loads(pickle.dumps(made)) == made


@cases("fields", {}, {"style": "x" * SIZE}, {"content": [TEXT] * 9 + [IMAGE]})
def test_nothing_long_comes_back_of_a_film(fields: dict[str, Any]) -> None:
    body = large_film(**fields)
    made, _ = read_submission(body, read_video, *ARGUMENTS)
    whole = read_general(body, VideoSpec())
    assert len(pickle.dumps(made)) < KEPT_BYTES
    assert parameters_of(made) == parameters_of(whole)
    assert (made.model, made.duration, made.asked_duration) == ("film", 5, 5)


@each("wire", WIRES)
def test_body_for_a_channel_is_that_of_a_small_request(wire: str) -> None:
    body = large_film(style="noir")
    _, made = submission_body(body, read_video, ARGUMENTS, wire, "theirs", "key")
    request = replace(read_general(body, VideoSpec()), model="theirs")
    whole = DIALECTS[wire].submit(request, idempotency_key="key").request
    assert made == whole.body
    assert len(made) > SIZE
    short, _ = read_submission(body, read_video, *ARGUMENTS)
    sent = DIALECTS[wire].submit(replace(short, model="theirs"), idempotency_key="key").request
    assert replace(sent, body=b"") == replace(whole, body=b"")


@cases(
    "kind, fields",
    ("general", {"content": [{**TEXT, "text": "x" * SIZE}]}),
    ("dh-motion", {"content": [READERS["dh-motion"][0]["content"][0] | {"x": "x" * SIZE}]}),
)
def test_request_that_is_sent_from_here_is_no_longer_than_others(
    kind: str, fields: dict[str, Any]
) -> None:
    spec = VideoSpec(real_person=True)
    model_id = "film" if kind == "general" else "dh-motion"
    with pytest.raises(InvalidRequest, match=str(COUNTED_BYTES_MAX)):
        read_submission(written(kind, **fields), read_video, model_id, spec)


def test_body_of_too_many_values_is_refused() -> None:
    body = json.dumps({"model": "film", "content": [TEXT], "style": [0] * 600_000}).encode()
    with pytest.raises(InvalidRequest, match="more than 500000 values"):
        read_submission(body, read_video, *ARGUMENTS)


@each("shape", FILMS)
def test_work_grows_with_the_size(shape: str) -> None:
    def work(size: int) -> int:
        body = film_of(shape, "film", size)

        def both() -> None:
            try:
                read_submission(body, read_video, *ARGUMENTS)
                submission_body(body, read_video, ARGUMENTS, "plain", "theirs", "key")
            except InvalidRequest:
                pass

        return steps_of(both)

    work(2_000)  # what is made once is made
    assert work(8_000) / work(4_000) < GROWTH_MAX
