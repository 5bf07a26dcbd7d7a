"""The parts of a media exchange: items, lists, prices, bodies that are large."""

import msgspec
import pytest
from msgspec import Raw

from channels.errors import UpstreamCut, UpstreamError
from channels.media.exchanges import perform
from channels.media.model import Exchange, MediaRequest, MediaResponse
from channels.media.replies import Polled
from channels.media.requests import ContentItem, GeneralVideo
from channels.media.results import SpeechAudio, VideoResult


def request_of(path: str) -> MediaRequest:
    return MediaRequest(method="GET", path=path)


def response_to(body: bytes) -> MediaResponse:
    return MediaResponse(status=200, headers={}, body=body, received_at=0.0)


class Upstream:
    """Answers in turn, or raises; notes what it is asked and how long it is waited for."""

    def __init__(self, *responses: bytes | UpstreamError) -> None:
        self._answers = list(responses)
        self.log: list[str | float] = []

    async def send(self, request: MediaRequest, limit: int) -> MediaResponse:
        self.log.append(f"{request.path} {limit}")
        reply = self._answers.pop(0)
        if isinstance(reply, UpstreamError):
            raise reply
        return response_to(reply)

    async def sleep(self, seconds: float) -> None:
        self.log.append(seconds)


def ends_with_its_body(path: str, *, after: float = 0.0, repeats: bool = False) -> Exchange[bytes]:
    return Exchange(
        request=request_of(path),
        read=lambda response: response.body,
        response_bytes_max=7,
        after_seconds=after,
        repeats=repeats,
    )


async def test_exchange_goes_on_where_its_response_says_so() -> None:
    upstream = Upstream(b"first", b"second")
    first: Exchange[bytes] = Exchange(
        request=request_of("/a"), read=lambda _: ends_with_its_body("/b", after=1.5)
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


def test_success_without_a_result_cannot_be_stated() -> None:
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
