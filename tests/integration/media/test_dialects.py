"""Every dialect of media against the server that the simulator has for it, over a real socket."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlencode

import pytest

from channels.http.client import HttpClient
from channels.http.interfaces import UpstreamRequest
from channels.media.dialects import DIALECTS
from channels.media.exchanges import perform
from channels.media.model import MIB, Exchange, MediaDialect, MediaRequest, MediaResponse, TaskKind
from channels.media.replies import (
    Accepted,
    CatalogValue,
    Done,
    Failed,
    NotFound,
    Polled,
    RateLimited,
    Refused,
    SubmitReply,
)
from channels.media.requests import (
    AvatarRequest,
    AvatarVideo,
    ClipVideo,
    Material,
    MusicRequest,
    SpeechRequest,
    Submission,
    TranscriptRequest,
    VoiceRequest,
)
from channels.media.results import (
    AvatarResult,
    MusicResult,
    SpeechAudio,
    SpeechResult,
    TranscriptResult,
    VideoResult,
    VoiceResult,
)
from tests.unit.media.exchanges import general, item
from tests.unit.simulator.hands import Hands, hands

T = TypeVar("T")
DAY = 86_400

SPEECH = SpeechRequest(model="tts", input="hello there", voice="preset-warm", speed=1.5)
LATER = SpeechRequest(model="tts", input="hello there", voice="preset-warm", is_async=True)
SONG = MusicRequest(model="song", lyrics="la la", title="Rain", tags="slow")
VOICE = VoiceRequest(model="clone", name="Me", audio_url="https://a.example/me.mp3")
AVATAR = AvatarRequest(name="Ann", source_url="https://a.example/a.png")
NEWS = ClipVideo(
    model="clip-news",
    scene="news",
    style_id="newsmixcutting-bold",
    title="News",
    duration=40,
    materials=(Material(type="image", file_url="https://a.example/a.png"),),
)


class Channel:
    """A dialect spoken to the simulator."""

    def __init__(self, at: Hands, http: HttpClient, dialect: MediaDialect) -> None:
        self.at = at
        self.dialect = dialect
        self._http = http
        self._keys = itertools.count(1)

    async def send(self, request: MediaRequest, limit: int) -> MediaResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        url = f"{self.at.simulator.base_url}{request.path}{query}"
        headers = (("Authorization", "Bearer k"), *request.headers)
        requested = UpstreamRequest(request.method, url, headers, request.body)
        response = await self._http.open(requested)
        result = {name: response.header(name) or "" for name in ("content-type", "retry-after")}
        return MediaResponse(
            status=response.status,
            headers={name: value for name, value in result.items() if value},
            body=await response.read(limit),
            received_at=self.at.now,
        )

    async def perform(self, exchange: Exchange[T] | None) -> T:
        assert exchange is not None
        return await perform(exchange, self.send, self._sleep, body_bytes_max=MIB)

    async def submit(self, submission: Submission) -> SubmitReply:
        key = f"vid_{next(self._keys)}"
        return await self.perform(self.dialect.submit(submission, idempotency_key=key))

    async def begin(self, submission: Submission) -> str:
        reply = await self.submit(submission)
        assert isinstance(reply, Accepted), reply
        return reply.upstream_id

    async def poll(self, kind: TaskKind, upstream_id: str) -> Any:
        return await self.perform(self.dialect.poll(kind, upstream_id))

    async def made(self, kind: TaskKind, submission: Submission) -> Polled:
        """What a task tells once it is over."""
        upstream_id = await self.begin(submission)
        self.at.simulator.finish()
        result = await self.poll(kind, upstream_id)
        assert isinstance(result, Polled), result
        return result

    async def _sleep(self, seconds: float) -> None:
        self.at.now += seconds


@asynccontextmanager
async def channel(name: str) -> AsyncIterator[Channel]:
    http = HttpClient(connect_seconds=5.0)
    async with hands() as at:
        try:
            yield Channel(at, http, DIALECTS[name])
        finally:
            await http.close()


@pytest.mark.parametrize("name", ["plain", "ark", "openai"])
async def test_a_film_is_queued_runs_and_is_made(name: str) -> None:
    async with channel(name) as upstream:
        film = general(duration=8, resolution="720p", ratio="9:16")
        upstream_id = await upstream.begin(film)
        assert upstream.at.simulator.tasks()[0].idempotency_key == "vid_1"
        assert (await upstream.poll("video", upstream_id)).state == "queued"
        upstream.at.now += 50
        running = await upstream.poll("video", upstream_id)
        assert (running.state, running.progress) == ("running", None if name == "ark" else 50)
        upstream.at.now += 50
        made = await upstream.poll("video", upstream_id)
        assert (made.state, made.seconds_ms) == ("succeeded", 8000)
        assert isinstance(made.result, VideoResult)
        content = upstream.dialect.content(upstream_id)
        if content is not None:
            assert made.result.url is None
            assert (await upstream.send(content, 10**6)).body[4:8] == b"ftyp"
            return
        assert made.result.expires_at == upstream.at.now + (DAY if name == "ark" else 7 * DAY)
        assert (await upstream.at.fetch(made.result.url or "")).body[4:8] == b"ftyp"


@pytest.mark.parametrize("name", ["plain", "ark", "openai"])
async def test_a_film_that_fails_is_lost_or_cancelled_says_so(name: str) -> None:
    async with channel(name) as upstream:
        simulator = upstream.at.simulator
        film = general(duration=8)
        simulator.put_faults({"task_error": {"code": "blocked", "message": "No."}})
        failed = await upstream.made("video", film)
        assert failed.state == "failed"
        assert failed.error is not None
        assert (failed.error.code, failed.error.message) == ("blocked", "No.")
        simulator.put_faults({"poll": {"status": 429, "retry_after": 7, "times": 1}})
        upstream_id = await upstream.begin(film)
        assert await upstream.poll("video", upstream_id) == RateLimited(7.0)
        assert await upstream.perform(upstream.dialect.cancel("video", upstream_id)) is True
        simulator.reset()
        assert await upstream.poll("video", upstream_id) == NotFound()


@pytest.mark.parametrize("name", ["plain", "ark", "openai", "suno", "minimax", "shanjian"])
async def test_a_submit_is_refused_or_fails_in_every_dialect(name: str) -> None:
    requested: dict[str, Submission] = {"suno": SONG, "minimax": LATER, "shanjian": NEWS}
    submission = requested.get(name, general(duration=8))
    async with channel(name) as upstream:
        simulator = upstream.at.simulator
        word = {"minimax": 1002, "shanjian": "Request.Limit"}.get(name)
        simulator.put_faults({"status": 429} if word is None else {"code": word})
        limited = await upstream.submit(submission)
        assert isinstance(limited, Refused)
        assert limited.status == 429
        simulator.put_faults({"status": 503, "message": "down"})
        failed = await upstream.submit(submission)
        assert isinstance(failed, Failed)
        assert failed.status == 503
        simulator.put_faults({"code": {"minimax": 2013}.get(name, "bad"), "message": "not this"})
        refused = await upstream.submit(submission)
        assert isinstance(refused, Refused)
        assert (refused.status, refused.message) == (400, "not this")
        assert simulator.tasks() == []


@pytest.mark.parametrize("name", ["plain", "suno"])
async def test_songs_are_made(name: str) -> None:
    async with channel(name) as upstream:
        made = await upstream.made("music", SONG)
        assert isinstance(made.result, MusicResult)
        one, two = made.result.tracks
        assert (one.title, one.lyrics, two.duration_sec) == ("Rain", "la la", 30.5)
        assert (await upstream.at.fetch(two.audio_url or "")).status == 200
        upstream.at.simulator.put_faults({"task_error": "no"})
        failed = await upstream.made("music", SONG)
        assert (failed.state, failed.error and failed.error.message) == ("failed", "no")
        upstream_id = await upstream.begin(SONG)
        upstream.at.now += 50
        assert (await upstream.poll("music", upstream_id)).state == "running"


@pytest.mark.parametrize("name", ["plain", "minimax"])
async def test_speech_is_spoken_at_once_and_later(name: str) -> None:
    async with channel(name) as upstream:
        spoken = await upstream.submit(SPEECH)
        assert isinstance(spoken, Done)
        assert isinstance(spoken.result, SpeechAudio)
        assert b"".join(spoken.result.pieces()).startswith(b"\xff\xfb")
        made = await upstream.made("speech", LATER)
        assert isinstance(made.result, SpeechResult)
        life = 9 * 3600 if name == "minimax" else 7 * DAY
        assert made.result.expires_at == upstream.at.now + life
        assert (await upstream.at.fetch(made.result.url)).status == 200
        upstream.at.simulator.put_faults({"task_error": "no"})
        assert (await upstream.made("speech", LATER)).state == "failed"


@pytest.mark.parametrize("name", ["plain", "shanjian"])
async def test_an_avatar_and_a_voice_are_made_and_speak(name: str) -> None:
    async with channel(name) as upstream:
        upstream.at.simulator.put_faults({"task_seconds": 0})
        avatar = (await upstream.made("avatar", AVATAR)).result
        assert isinstance(avatar, AvatarResult)
        cloned = await upstream.submit(VOICE)
        assert isinstance(cloned, Done)
        assert isinstance(cloned.result, VoiceResult)
        film = AvatarVideo(
            model="dh-avatar",
            duration=9,
            avatar=avatar.upstream_id,
            voice=cloned.result.upstream_id,
            text="x" * 52,
        )
        assert (await upstream.made("video", film)).seconds_ms == 10_400


@pytest.mark.parametrize("name", ["plain", "shanjian"])
async def test_a_clip_is_made_and_its_template_described(name: str) -> None:
    async with channel(name) as upstream:
        made = await upstream.made("video", NEWS)
        assert made.seconds_ms == 40_000
        assert isinstance(made.result, VideoResult)
        assert (await upstream.at.fetch(made.result.url or "")).status == 200
        listed = await upstream.perform(upstream.dialect.templates("realMan"))
        assert isinstance(listed, CatalogValue)
        assert [(one.title, one.has_title, one.has_persona) for one in listed.value] == [
            ("Plain", True, True),
            ("Bold", True, False),
            ("Quiet", False, False),
        ]
        detail = await upstream.perform(upstream.dialect.template("realman-quiet"))
        assert isinstance(detail, CatalogValue)
        assert (detail.value.has_title, detail.value.canvas is not None) == (False, True)
        unknown = await upstream.perform(upstream.dialect.template("none"))
        assert isinstance(unknown, Refused)
        assert unknown.status == 404
        avatars = await upstream.perform(upstream.dialect.preset_avatars())
        voices = await upstream.perform(upstream.dialect.preset_voices())
        assert isinstance(avatars, CatalogValue)
        assert isinstance(voices, CatalogValue)
        assert (avatars.value[0].name, voices.value[0].language) == ("Anna", "en")


@pytest.mark.parametrize("later", [False, True])
async def test_a_transcript_comes_at_once_or_is_waited_for(later: bool) -> None:
    async with channel("plain") as upstream:
        upstream.at.simulator.put_faults({"later": later, "task_seconds": 3})
        request = TranscriptRequest(model="script", url="https://a.example/v")
        reply = await upstream.submit(request)
        assert isinstance(reply, Done)
        assert isinstance(reply.result, TranscriptResult)
        assert reply.result.text.startswith("Welcome")
        assert len(reply.result.segments) == 3


async def test_an_image_of_a_person_is_registered_first() -> None:
    async with channel("plain") as upstream:
        content = (item("text", "she waves"), item("image_url", "https://a.example/a.png"))
        await upstream.begin(general(*content, duration=8, registers_images=True))
        registered, submitted = upstream.at.simulator.requests()
        assert registered.path == "/v1/assets"
        assert b"asset://asset_" in submitted.body
        upstream.at.simulator.put_faults({"asset": {"status": 403, "message": "not her"}})
        refused = await upstream.submit(general(*content, duration=8, registers_images=True))
        assert isinstance(refused, Refused)
        assert refused.status == 400
