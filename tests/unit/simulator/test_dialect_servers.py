"""What the providers' dialects of tasks have of their own: ends of links, cancellations, bytes.

What each says to its dialect of the gateway is `tests/integration/media/test_dialects.py`.
"""

from __future__ import annotations

from typing import Any

from tests.unit.simulator.hands import NOW, TASK_SECONDS, hands

ARK = "/api/v3/contents/generations/tasks"
FILM = {"model": "seedance", "content": [{"type": "text", "text": "a boat"}], "duration": 4}
SORA = {"model": "sora", "prompt": "a boat", "seconds": "8", "size": "1280x720"}
SPEECH: dict[str, Any] = {"model": "speech", "text": "hello", "voice_setting": {"voice_id": "a"}}
DAY = 86_400


# --- ark ---


async def test_ark_tells_the_length_and_a_link_for_a_day_from_the_last_change() -> None:
    async with hands() as h:
        task = (await h.submit(ARK, {**FILM, "resolution": "1080p"}))["id"]
        assert task.startswith("cgt-")
        told = (await h.ask("GET", f"{ARK}/{task}")).json
        assert (told["status"], told["error"], told["updated_at"]) == ("queued", None, NOW)
        h.now += TASK_SECONDS + 50
        told = (await h.ask("GET", f"{ARK}/{task}")).json
        assert (told["status"], told["duration"], told["resolution"]) == ("succeeded", 4.0, "1080p")
        assert told["updated_at"] == NOW + TASK_SECONDS
        url = told["content"]["video_url"]
        h.now = NOW + TASK_SECONDS + DAY - 1
        assert (await h.fetch(url)).body[4:8] == b"ftyp"
        h.now += 1
        assert (await h.fetch(url)).status == 403
        frames = (await h.submit(ARK, {**FILM, "frames": 60}, task_seconds=0))["id"]
        told = (await h.ask("GET", f"{ARK}/{frames}")).json
        assert (told["frames"], told["framespersecond"], "duration" in told) == (60, 24, False)


async def test_ark_cancels_what_is_queued_and_forgets_what_is_over() -> None:
    async with hands() as h:
        task = (await h.submit(ARK, FILM))["id"]
        assert (await h.ask("DELETE", f"{ARK}/{task}")).json == {}
        assert (await h.ask("GET", f"{ARK}/{task}")).json["status"] == "cancelled"
        runs = (await h.submit(ARK, FILM, task_error={"code": "X", "message": "y"}))["id"]
        h.now += 50
        assert (await h.ask("DELETE", f"{ARK}/{runs}")).status == 409
        h.now += 50
        told = (await h.ask("GET", f"{ARK}/{runs}")).json
        assert (told["status"], told["error"]["code"]) == ("failed", "X")
        assert (await h.ask("DELETE", f"{ARK}/{runs}")).status == 200
        gone = await h.ask("GET", f"{ARK}/{runs}")
        assert (gone.status, gone.json["error"]["code"]) == (404, "ResourceNotFound")


# --- openai ---


async def test_openai_gives_the_bytes_for_the_key_until_they_expire() -> None:
    async with hands() as h:
        begun = await h.submit("/v1/videos", SORA)
        path = f"/v1/videos/{begun['id']}"
        assert (begun["status"], begun["seconds"], begun["expires_at"]) == ("queued", "8", None)
        early = await h.ask("GET", f"{path}/content")
        assert (early.status, early.json["error"]["code"]) == (404, "not_found")
        h.now += 60
        assert (await h.ask("GET", path)).json["status"] == "in_progress"
        h.now += 60
        done = (await h.ask("GET", path)).json
        assert (done["status"], done["progress"], done["completed_at"]) == (
            "completed",
            100,
            NOW + TASK_SECONDS,
        )
        whole = await h.ask("GET", f"{path}/content")
        part = await h.ask("GET", f"{path}/content", Range="bytes=4-7")
        assert (part.status, part.body) == (206, whole.body[4:8])
        assert (await h.ask("GET", f"{path}/content", key="another")).status == 404
        h.now = done["expires_at"]
        assert (await h.ask("GET", f"{path}/content")).status == 404
        assert (await h.ask("DELETE", path)).json["deleted"] is True
        assert (await h.ask("GET", path)).status == 404


# --- minimax ---


async def test_minimax_names_a_file_whose_link_is_asked_for_apart() -> None:
    async with hands() as h:
        begun = await h.submit("/v1/t2a_async_v2", SPEECH)
        poll = f"/v1/query/t2a_async_query_v2?task_id={begun['task_id']}"
        assert (await h.ask("GET", poll)).json["status"] == "Processing"
        file = f"/v1/files/retrieve?file_id={begun['file_id']}"
        assert (await h.ask("GET", file)).json["base_resp"]["status_code"] == 2013
        h.simulator.finish()
        told = (await h.ask("GET", poll)).json
        assert (told["status"], told["file_id"]) == ("Success", begun["file_id"])
        url = (await h.ask("GET", file)).json["file"]["download_url"]
        h.now += 9 * 3600 - 1
        assert (await h.fetch(url)).status == 200
        h.now += 1
        assert (await h.fetch(url)).status == 403
        again = (await h.ask("GET", file)).json["file"]["download_url"]
        assert (await h.fetch(again)).status == 200
        (task,) = h.simulator.tasks()
        assert task["polls"] == 2
        codes = [(await h.ask("GET", poll)).json["base_resp"]["status_code"] for _ in range(11)]
        assert codes == [0] * 10 + [1002]
