"""The providers' dialects of tasks, each with its own words, errors and ends of links."""

from __future__ import annotations

from typing import Any

from tests.unit.simulator.hands import NOW, TASK_SECONDS, Hands, hands

ARK = "/api/v3/contents/generations/tasks"
FILM = {"model": "seedance", "content": [{"type": "text", "text": "a boat"}], "duration": 4}
SORA = {"model": "sora", "prompt": "a boat", "seconds": "8", "size": "1280x720"}
SPEECH: dict[str, Any] = {"model": "speech", "text": "hello", "voice_setting": {"voice_id": "a"}}
CLIP = {"styleId": "realman-bold", "videoUrl": "https://a.example/v.mp4"}
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


async def test_ark_refuses_in_its_own_words() -> None:
    async with hands() as h:
        h.simulator.put_faults({"open_tasks_max": 1})
        await h.submit(ARK, FILM)
        full = await h.ask("POST", ARK, FILM)
        assert (full.status, full.json["error"]["code"]) == (429, "QuotaExceeded")
        h.simulator.clear_faults()
        bad = await h.ask("POST", ARK, {**FILM, "resolution": "90p"})
        assert (bad.status, bad.json["error"]["code"]) == (400, "InvalidParameter")
        code = "InputTextSensitiveContentDetected"
        blocked = await h.ask("POST", ARK, {**FILM, "sim": {"code": code}})
        assert (blocked.status, blocked.json["error"]["code"]) == (400, code)


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


async def test_openai_takes_some_lengths_and_sizes_and_fails_with_an_error() -> None:
    async with hands() as h:
        for wrong in ({"seconds": "5"}, {"seconds": 8}, {"size": "1x1"}, {"input_reference": "u"}):
            assert (await h.ask("POST", "/v1/videos", {**SORA, **wrong})).status == 400
        task = (await h.submit("/v1/videos", SORA, task_error={"code": "c", "message": "m"}))["id"]
        h.simulator.finish()
        told = (await h.ask("GET", f"/v1/videos/{task}")).json
        assert (told["status"], told["error"]) == ("failed", {"code": "c", "message": "m"})


# --- suno ---


async def test_suno_lists_songs_before_they_can_be_heard() -> None:
    async with hands() as h:
        body = {"mv": "chirp", "prompt": "la la", "title": "Rain", "tags": "slow"}
        begun = await h.submit("/suno/submit/music", body)
        assert begun["code"] == "success"
        path = f"/suno/fetch/{begun['data']}"
        assert (await h.ask("GET", path)).json["data"]["status"] == "SUBMITTED"
        h.now += 50
        told = (await h.ask("GET", path)).json["data"]
        assert (told["status"], told["progress"]) == ("IN_PROGRESS", "50%")
        assert [song["audio_url"] for song in told["data"]] == ["", ""]
        h.now += 50
        told = (await h.ask("GET", path)).json["data"]
        one, two = told["data"]
        assert (told["status"], one["title"], one["metadata"]["prompt"]) == (
            "SUCCESS",
            "Rain",
            "la la",
        )
        assert two["metadata"]["duration"] == 30.5
        assert (await h.fetch(two["audio_url"])).headers["content-type"] == "audio/mpeg"


async def test_suno_says_in_its_envelope_what_is_wrong() -> None:
    async with hands() as h:
        wrong = await h.ask("POST", "/suno/submit/music", {"mv": "chirp"})
        assert (wrong.status, wrong.json["code"], wrong.json["data"]) == (
            200,
            "invalid_request",
            None,
        )
        unknown = await h.ask("GET", "/suno/fetch/none")
        assert (unknown.status, unknown.json["code"]) == (400, "task_not_exist")
        task = await h.submit("/suno/submit/music", {"mv": "c", "prompt": "x"}, task_error="no")
        h.simulator.finish()
        told = (await h.ask("GET", f"/suno/fetch/{task['data']}")).json["data"]
        assert (told["status"], told["fail_reason"], told["data"]) == ("FAILURE", "no", [])


# --- minimax ---


async def test_minimax_sends_sound_in_digits_and_errors_as_a_200() -> None:
    async with hands() as h:
        spoken = await h.submit("/v1/t2a_v2", {**SPEECH, "audio_setting": {"format": "wav"}})
        assert bytes.fromhex(spoken["data"]["audio"]).startswith(b"RIFF")
        assert spoken["extra_info"]["usage_characters"] == 5
        for wrong, code in (
            ({"text": ""}, 2013),
            ({"sim": {"code": 1002}}, 1002),
            ({"sim": {"code": 1039}}, 1039),
            ({"voice_setting": {"voice_id": "a", "speed": 9}}, 2013),
        ):
            reply = await h.ask("POST", "/v1/t2a_v2", {**SPEECH, **wrong})
            assert (reply.status, reply.json["base_resp"]["status_code"]) == (200, code)


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


# --- shanjian ---


async def shanjian(h: Hands, path: str, body: dict[str, Any], **sim: Any) -> dict[str, Any]:
    """What a submit's task has become in the end."""
    begun = await h.submit(path, body, **sim)
    assert begun["code"] == "Succeed"
    h.simulator.finish()
    told = await h.ask("GET", f"/v1/task/info?taskId={begun['data']['taskId']}")
    data: dict[str, Any] = told.json["data"]
    return data


async def test_shanjian_trains_what_films_are_made_with() -> None:
    async with hands() as h:
        image = {"imageUrl": "https://a.example/a.png"}
        avatar = (await shanjian(h, "/v1/virtualman/image/train", image))["result"]["virtualmanId"]
        sample = {"audioUrl": "https://a.example/a.mp3", "model": "m", "language": "zh-CN"}
        voice = (await shanjian(h, "/v1/voice/train", sample))["result"]["speakerId"]
        film = {"virtualmanId": avatar, "speakerId": voice, "text": "x" * 50}
        made = await shanjian(h, "/v1/virtualman/video", film)
        assert (made["status"], made["result"]["duration"]) == ("succeed", 10.0)
        url = made["result"]["videoUrl"]
        assert (await h.fetch(url)).headers["content-type"] == "video/mp4"
        h.now += DAY
        assert (await h.fetch(url)).status == 403
        other = {**film, "virtualmanId": "none"}
        wrong = await h.ask("POST", "/v1/virtualman/video", other)
        assert (wrong.status, wrong.json["code"]) == (200, "Param.Invalid")


async def test_shanjian_makes_clips_and_says_why_one_failed() -> None:
    async with hands() as h:
        made = await shanjian(h, "/v1/clip/video/realman_broadcast", CLIP)
        assert made["result"]["duration"] == 30.0
        materials = [{"type": "image", "fileUrl": "https://a.example/a.png"}]
        news = {"styleId": CLIP["styleId"], "title": "News", "materials": materials}
        path = "/v1/clip/video/news_mixcut"
        body = {**news, "processRules": {"videoDuration": 40}}
        failed = await shanjian(h, path, body, task_error={"code": "E", "message": "m"})
        assert (failed["status"], failed["result"]) == ("failed", None)
        assert (failed["errorCode"], failed["errorMessage"]) == ("E", "m")
        long = {**news, "processRules": {"videoDuration": 400}}
        assert (await h.ask("POST", path, long)).json["code"] == "Param.Invalid"
        h.simulator.put_faults({"open_tasks_max": 0})
        full = await h.ask("POST", "/v1/clip/video/realman_broadcast", CLIP)
        assert (full.status, full.json["code"]) == (200, "Concurrency.Limit")


async def test_shanjian_lists_templates_page_by_page_and_flags_in_the_details() -> None:
    async with hands() as h:
        path = "/v1/clip/template?scene=realMan&pageSize=100"
        first = (await h.ask("GET", path)).json["data"]
        second = (await h.ask("GET", f"{path}&sid={first['sid']}")).json["data"]
        assert (len(first["results"]), len(second["results"]), second["sid"]) == (2, 1, "")
        (quiet,) = second["results"]
        detail = (await h.ask("GET", f"/v1/clip/template/detail/{quiet['id']}")).json["data"]
        assert detail["videoStructInfo"]["editInfo"]["headerLayer"] == {}
        unknown = await h.ask("GET", "/v1/clip/template/detail/none")
        assert unknown.json["code"] == "Param.Invalid"
        for kind, name in (("virtualman", "virtualmanId"), ("voice", "speakerId")):
            presets = (await h.ask("GET", f"/v1/assets/{kind}/common")).json["data"]["results"]
            assert len({one[name] for one in presets}) == 3
