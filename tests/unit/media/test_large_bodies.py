"""Large bodies of media endpoints."""

import json
import pickle
from typing import Any

import pytest
from msgspec.structs import replace

from channels.errors import InvalidRequest
from channels.json.weight import COUNTED_BYTES_MAX
from channels.media.dialects import DIALECTS
from channels.offload.jobs import read_submission, submission_body
from channels.registry import VideoSpec
from gw.media.general_videos import read_general
from gw.media.logged_parameters import parameters_of
from gw.media.videos import read_video
from loadtests.attacks.body_shapes import FILMS, film_of
from tests.support.rows import cases, each
from tests.support.steps import steps_of
from tests.unit.media.bodies import READERS, TEXT, read, written

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
    read, _ = read_submission(body, read_video, *ARGUMENTS)
    made = read.made
    whole = read_general(body, VideoSpec())
    assert len(pickle.dumps(read)) < KEPT_BYTES
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
    sent = DIALECTS[wire].submit(replace(short.made, model="theirs"), idempotency_key="key").request
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
