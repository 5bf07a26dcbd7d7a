"""Tasks over the plain wire: states by the clock, endings, files, what directives change."""

from __future__ import annotations

from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from loadtests.simulator.tasks.book import REPLAYS_MAX, TaskBook, replay_of
from tests.unit.simulator.client import KEY, call
from tests.unit.simulator.hands import Hands, hands

VIDEO = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": 4}
SPEECH = {"model": "tts", "input": "hello out there", "voice": "preset-warm"}
MUSIC = {"model": "song", "prompt": "rain"}
AVATAR = {"name": "Ann", "source_url": "https://a.example/a.png"}
CLIP = {"model": "clip-realman", "style_id": "realman-bold", "source_video_url": "https://a.b/c"}
VIDEOS = "/v1/videos/generations"


async def submit(h: Hands, body: Any = VIDEO, path: str = VIDEOS, **sim: Any) -> str:
    task: str = (await h.submit(path, body, **sim))["id"]
    return task


async def test_a_file_comes_whole_in_ranges_and_until_its_link_ends() -> None:
    async with hands() as h:
        task = await submit(h, VIDEO, task_seconds=0, file_bytes=400_000)
        url = (await h.ask("GET", f"{VIDEOS}/{task}")).json["video_url"]
        whole = await h.fetch(url)
        assert (whole.status, len(whole.body)) == (200, 400_000)
        assert whole.headers["content-type"] == "video/mp4"
        assert whole.body[4:8] == b"ftyp"
        tag = whole.headers["etag"]
        part = await h.fetch(url, range="bytes=100000-", if_range=tag)
        assert (part.status, part.body) == (206, whole.body[100_000:])
        assert part.headers["content-range"] == "bytes 100000-399999/400000"
        assert (await h.fetch(url, range="bytes=5-8")).body == whole.body[5:9]
        assert (await h.fetch(url, range="bytes=-7")).body == whole.body[-7:]
        assert (await h.fetch(url, range="bytes=1-2", if_range='"else"')).status == 200
        assert (await h.fetch(url, range="bytes=400000-")).status == 416
        assert (await h.fetch(url[:-1] + "x")).status == 403
        assert b"SignatureDoesNotMatch" in (await h.fetch(url[:-1] + "x")).body
        h.now += 7 * 86_400
        gone = await h.fetch(url)
        assert (gone.status, b"expired" in gone.body) == (403, True)


@pytest.mark.parametrize(
    ("sim", "shown"),
    [
        ({"task_error": {"code": "x", "message": "y"}}, {"error": {"code": "x", "message": "y"}}),
        ({"task_error": "words"}, {"status": "failed", "error": "words"}),
        ({"task_end": "expired"}, {"status": "expired"}),
        ({"task_end": "Completed"}, {"status": "Completed"}),
        ({"no_result": True}, {"status": "succeeded", "duration": 4.0}),
        ({"real_seconds": "7.25"}, {"duration": "7.25"}),
    ],
)
async def test_a_directive_decides_the_end(sim: dict[str, Any], shown: dict[str, Any]) -> None:
    async with hands() as h:
        task = await submit(h, **sim)
        assert h.simulator.finish(task)
        told = (await h.ask("GET", f"{VIDEOS}/{task}")).json
        assert {name: told.get(name) for name in shown} == shown
        assert ("video_url" in told) == ("real_seconds" in sim)
        assert not h.simulator.finish("vid_none")


async def test_words_on_the_way_and_what_is_left_out() -> None:
    async with hands() as h:
        task = await submit(h, task_states=["NOT_START", "odd"], no_progress=True, no_seconds=True)
        assert (await h.ask("GET", f"{VIDEOS}/{task}")).json["status"] == "NOT_START"
        h.now += 60
        told = (await h.ask("GET", f"{VIDEOS}/{task}")).json
        assert (told["status"], "progress" in told) == ("odd", False)
        h.now += 60
        assert "duration" not in (await h.ask("GET", f"{VIDEOS}/{task}")).json


async def test_later_requests_fail_as_the_submit_or_a_standing_directive_says() -> None:
    async with hands() as h:
        text = 'a boat [[sim {"poll": {"status": 429, "retry_after": 3, "times": 1}}]]'
        body = {**VIDEO, "content": [{"type": "text", "text": text}]}
        task = await submit(h, body, file={"cut_after_bytes": 10}, cancel={"status": 500})
        first = await h.ask("GET", f"{VIDEOS}/{task}")
        assert (first.status, first.headers["retry-after"]) == (429, "3")
        assert first.json["error"]["code"] == "rate_limit_exceeded"
        assert (await h.ask("GET", f"{VIDEOS}/{task}")).status == 200
        assert (await h.ask("DELETE", f"{VIDEOS}/{task}")).status == 500
        h.simulator.put_faults({"poll": {"status": 503, "times": 2}}, api_key=KEY)
        other = await submit(h)
        polled = [(await h.ask("GET", f"{VIDEOS}/{other}")).status for _ in range(3)]
        assert polled == [503, 503, 200]
        h.simulator.finish()
        url = (await h.ask("GET", f"{VIDEOS}/{task}")).json["video_url"]
        cut = await h.fetch(url)
        assert (len(cut.body), cut.is_whole) == (10, False)


async def test_an_answer_that_is_lost_does_not_lose_the_task() -> None:
    async with hands() as h:
        lost = await h.ask("POST", VIDEOS, {**VIDEO, "sim": {"refuse": True}}, Idempotency_Key="a")
        assert (lost.status, lost.end) == (0, "eof")
        (task,) = h.simulator.tasks()
        assert task["idempotency_key"] == "a"
        refused = await h.ask("POST", VIDEOS, {**VIDEO, "sim": {"status": 503}})
        assert refused.json["error"]["code"] == "upstream_error"
        coded = await h.ask("POST", VIDEOS, {**VIDEO, "sim": {"code": "content_policy"}})
        assert (coded.status, coded.json["error"]["code"]) == (400, "content_policy")
        assert len(h.simulator.tasks()) == h.simulator.stats.tasks == 1


async def test_the_same_key_gets_the_same_answer_and_another_body_none() -> None:
    async with hands() as h:
        first = await h.ask("POST", VIDEOS, VIDEO, Idempotency_Key="k")
        again = await h.ask("POST", VIDEOS, VIDEO, Idempotency_Key="k")
        assert (again.json, again.headers["idempotency-replayed"]) == (first.json, "true")
        longer = await h.ask("POST", VIDEOS, {**VIDEO, "duration": 5}, Idempotency_Key="k")
        assert longer.status == 409
        other = await h.ask("POST", VIDEOS, VIDEO, key="another", Idempotency_Key="k")
        assert other.json["id"] != first.json["id"]
        long = {**SPEECH, "input": "x" * 900}
        assert (await h.ask("POST", "/v1/audio/speech", long, Idempotency_Key="s")).status == 200
        large = await h.ask("POST", "/v1/audio/speech", long, Idempotency_Key="s")
        assert large.json["error"]["code"] == "idempotency_response_not_cached"


async def test_a_cancelled_task_stays_so_and_one_that_is_over_cannot_be() -> None:
    async with hands() as h:
        task = await submit(h)
        assert (await h.ask("DELETE", f"{VIDEOS}/{task}")).json["status"] == "cancelled"
        h.now += 1000
        told = (await h.ask("GET", f"{VIDEOS}/{task}")).json
        assert (told["status"], told["error"]["code"]) == ("cancelled", "task_cancelled")
        assert (await h.ask("DELETE", f"{VIDEOS}/{task}")).status == 400


async def test_limits_that_a_directive_sets_are_kept_in_the_wires_words() -> None:
    async with hands() as h:
        h.simulator.put_faults({"open_tasks_max": 1})
        await submit(h)
        full = await h.ask("POST", VIDEOS, VIDEO)
        assert (full.status, "concurrency" in full.json["error"]["message"]) == (429, True)
        h.simulator.finish()
        h.simulator.put_faults({"minute_max": 2})
        statuses = [(await h.ask("POST", VIDEOS, VIDEO)).status for _ in range(3)]
        h.now += 61
        assert [*statuses, (await h.ask("POST", VIDEOS, VIDEO)).status] == [200, 200, 429, 200]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (VIDEOS, {"model": "film", "content": []}),
        (VIDEOS, {"model": "film"}),
        (VIDEOS, {**VIDEO, "duration": "5"}),
        (VIDEOS, {"model": "dh-motion", "duration": 5}),
        (VIDEOS, {**CLIP, "style_id": "none"}),
        (VIDEOS, []),
        (VIDEOS, {**VIDEO, "sim": {"poll": {"poll": {}}}}),
        (VIDEOS, {**VIDEO, "sim": {"poll": {"nothing": 1}}}),
        ("/v1/music/generations", {"model": "song"}),
        ("/v1/audio/speech", {**SPEECH, "response_format": "ogg"}),
        ("/v1/audio/voices", {"model": "m", "name": "x" * 21, "audio_url": "https://a.b/c"}),
        ("/v1/videos/avatars", {**AVATAR, "source_url": "ftp://a"}),
        ("/v1/transcripts/extract", {"url": 5}),
    ],
)
async def test_what_cannot_be_meant_is_refused(path: str, body: object) -> None:
    async with hands() as h:
        reply = await h.ask("POST", path, body)
        assert (reply.status, reply.json["error"]["code"]) == (400, "invalid_request")
        assert h.simulator.tasks() == []


async def test_no_key_another_method_and_the_introspection_over_http() -> None:
    async with hands() as h:
        assert (await call(h.simulator, "POST", VIDEOS, VIDEO)).status == 401
        assert (await h.ask("PUT", VIDEOS, VIDEO)).status == 405
        registered = await h.ask("POST", "/v1/assets", {"model": "m", "type": "image", "url": "u"})
        assert registered.json["id"].startswith("asset_")
        task = await submit(h)
        shown = (await call(h.simulator, "GET", "/_sim/tasks?last=1")).json["tasks"]
        assert [one["id"] for one in shown] == [task]
        assert (await call(h.simulator, "POST", f"/_sim/finish/{task}")).status == 200
        assert (await call(h.simulator, "POST", "/_sim/finish/none")).status == 404
        assert (await h.ask("GET", f"{VIDEOS}/{task}")).json["status"] == "succeeded"
        await h.simulator.wait(tasks=1, polls=1)
        await call(h.simulator, "POST", "/_sim/reset")
        assert (await h.ask("GET", f"{VIDEOS}/{task}")).status == 404


def test_the_book_keeps_so_many_tasks_and_answers() -> None:
    book = TaskBook(1, tasks_max=2)
    simulator = Simulator()
    simulator.engine.tasks.book = book
    replay = replay_of(b"/", b"", 200, b"", b"")
    for number in range(REPLAYS_MAX + 1):
        book.keep("k", str(number), replay)
    assert (book.replay("k", "0"), book.replay("k", "1")) == (None, replay)
    assert len({book.new_id() for _ in range(100)}) == 100
