"""Errors that stand in `base_resp` of a response: as those are that have a status of their own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.rows import each
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import Script, answer
from tests.unit.calls.test_failure_classes import WAYS
from tests.unit.calls.world import world

GOOD = answer(sse.whole())
ON_CHAT = [way for way in WAYS if way.rpartition(" ")[2] == "chat"]


@pytest.fixture(autouse=True)
def key_refusals(expect_log: Callable[..., None]) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


def failed(code: object) -> dict[str, object]:
    """What comes instead of an answer; the rest of it is all there."""
    return {
        "id": "04ecb5d9b1921ae0fb0e8da9017a5474",
        "choices": None,
        "created": 1755153113,
        "model": "MiniMax-M2",
        "object": "chat.completion",
        "usage": {"total_tokens": 0, "total_characters": 0},
        "base_resp": {"status_code": code, "status_msg": "It says why."},
    }


def script_of(code: object, form: str) -> Script:
    body = failed(code)
    return answer(sse.event(body) if form == "an event" else json.dumps(body).encode())


FORMS = [("a body", False), ("a body", True), ("an event", True)]


@each(
    "code, status",
    [(1002, 429), (1004, 401), (1008, 402), (1026, 400), (2013, 400), ("2049", 401)],
)
@each("form, stream", FORMS)
@each("way", ON_CHAT)
async def test_refusal_is_the_clients_as_with_a_status(
    way: str, form: str, stream: bool, code: object, status: int
) -> None:
    async with world(a=[script_of(code, form)], b=[GOOD]) as w:
        told = await w.call(stream=stream, plan=WAYS[way])
        is_of_key = status in (401, 402)
        if is_of_key:
            assert told.attempts[0] == f"upstream_{status}"
            assert w.wire.tried == ["a", "b"]
        else:
            assert told.error is not None
            assert (told.error.http_status, told.error.message) == (status, "It says why.")
            assert (told.cost, told.attempts, told.writer.blocks) == (0, [], [])
            assert w.wire.tried == ["a"]
        assert w.verdict("a") == "success"
        assert w.channels["a"].spec.ring.aside == is_of_key


@each("code", [1000, 1001, 1033, 999_999])
@each("form, stream", FORMS)
@each("way", ON_CHAT)
async def test_failure_is_tried_elsewhere(way: str, form: str, stream: bool, code: int) -> None:
    refusing = answer(sse.error_body("no"), status=400)
    async with world(a=[script_of(code, form)], b=[refusing]) as w:
        told = await w.call(stream=stream, plan=WAYS[way])
        assert told.attempts == ["upstream_error"]
        assert w.wire.tried == ["a", "b"]
        assert w.verdict("a") == "failure"


async def test_good_one_is_nothing() -> None:
    good = json.loads(sse.whole("Hello")) | {"base_resp": {"status_code": 0, "status_msg": ""}}
    async with world(a=[answer(json.dumps(good).encode())]) as w:
        told = await w.call()
        assert (told.error, told.status) == (None, ("success", None))
