"""Links to what a job has made: renewed, and streamed."""

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
import ujson

from actors.jobs import link_renewal
from actors.jobs.job import Job
from actors.jobs.link_renewal import LinkRenewal
from actors.jobs.settlement import LINK_SECONDS
from actors.jobs.store import SQL
from actors.store.errors import StatementRefused
from channels.media.results import AvatarResult, TaskResult, VideoResult
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.jobs import polled, running_job
from tests.support.logs import logs
from tests.support.rows import cases
from tests.support.upstreams import ScriptedUpstreams


class Database:
    """Lets each job be asked for once, and remembers what is kept."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.kept: dict[str, Any] = {}
        self.refuses = False

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        if sql == SQL["claim_renewals"]:
            ids = [name for name in params[0] if name not in self.claimed]
            self.claimed.update(ids)
            return [(name,) for name in ids]
        assert sql == SQL["renew_result"]
        if self.refuses:
            raise StatementRefused("22003", "out of range")
        self.kept[params[1]] = ujson.loads(params[0])
        return []


class Scene:
    """A renewal on fakes."""

    def __init__(self) -> None:
        self.clock, self.database, self.upstreams = FakeClock(), Database(), ScriptedUpstreams()
        self.renewal = LinkRenewal(
            database=self.database, upstreams=self.upstreams, clock=self.clock
        )

    def job(self, number: int = 1, result: TaskResult | None = None, **message: Any) -> Job:
        """A film whose link ended a second ago."""
        old = VideoResult(
            url="https://cdn.example/old", expires_at=self.clock.now() - 1, milliseconds=4000
        )
        usual: dict[str, Any] = {
            "id": f"vid_{number}",
            "state": "succeeded",
            "call_id": UUID(int=number),
            "upstream_id": f"up_{number}",
            "stored_result": msgspec.to_builtins(result or old),
            "ended_at": 1.0,
        }
        return running_job(**{**usual, **message})

    def film(self, url: str | None, seconds: float | None) -> VideoResult:
        at = None if seconds is None else self.clock.now() + seconds
        return VideoResult(url=url, expires_at=at)


@logs("task_links_not_kept")
async def test_link_that_cannot_be_kept_is_shown() -> None:
    s = Scene()
    s.database.refuses = True
    s.upstreams.say("up_1", polled("succeeded", result=s.film("https://cdn.example/new", 60)))
    (shown,) = await s.renewal.renewed([s.job()])
    assert isinstance(shown.result, VideoResult)
    assert shown.result.url == "https://cdn.example/new"


async def test_new_link_is_shown_and_kept_with_what_was_paid_for() -> None:
    s = Scene()
    job = s.job()
    s.upstreams.say("up_1", polled("succeeded", result=s.film("https://cdn.example/new", 60)))
    (shown,) = await s.renewal.renewed([job])
    assert isinstance(shown.result, VideoResult)
    assert (shown.result.url, shown.result.milliseconds) == ("https://cdn.example/new", 4000)
    assert s.database.kept["vid_1"]["url"] == "https://cdn.example/new"


async def test_link_that_is_good_and_what_has_none_are_not_requested() -> None:
    s = Scene()
    good = s.job(1, s.film("https://cdn.example/good", 60))
    avatar = s.job(2, AvatarResult(upstream_id="a"), kind="avatar")
    running = s.job(3, stored_result=None, state="running")
    jobs = [good, avatar, running]
    assert await s.renewal.renewed(jobs) == jobs
    assert s.upstreams.requested == []
    assert not s.database.claimed


@cases(
    "message",
    polled("queued"),
    polled("failed"),
    polled("succeeded", result=VideoResult(url="https://cdn.example/old")),
    polled("succeeded", result=VideoResult(url="https://cdn.example/x", expires_at=1.0)),
)
async def test_without_a_new_link_the_old_one_stays(message: Any) -> None:
    s = Scene()
    job = s.job()
    s.upstreams.say("up_1", message)
    assert await s.renewal.renewed([job]) == [job]
    assert s.database.kept == {}
    await s.renewal.renewed([job])
    assert len(s.upstreams.requested) == 1  # the minute is not over


async def test_link_of_ours_is_good_for_another_while_and_no_upstream_is_called() -> None:
    s = Scene()
    (shown,) = await s.renewal.renewed([s.job(result=s.film(None, -1))])
    assert isinstance(shown.result, VideoResult)
    assert shown.result.expires_at == s.clock.now() + LINK_SECONDS
    assert s.upstreams.requested == []


async def test_nobody_waits_long_and_the_next_one_gets_what_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link_renewal, "WAIT_SECONDS", 0.01)
    s = Scene()
    s.upstreams.gate = asyncio.Event()
    s.upstreams.say("up_1", polled("succeeded", result=s.film("https://cdn.example/new", 60)))
    job = s.job()
    assert await s.renewal.renewed([job]) == [job]
    s.upstreams.gate.set()
    await eventually(lambda: "vid_1" in s.database.kept)


async def test_questions_of_one_process_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_renewal, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(link_renewal, "POLLS_MAX", 3)
    s = Scene()
    s.upstreams.gate = asyncio.Event()
    jobs = [s.job(number) for number in range(10)]
    assert await s.renewal.renewed(jobs) == jobs
    assert len(s.database.claimed) == s.upstreams.waiting == 3
    s.upstreams.gate.set()
    await eventually(lambda: s.upstreams.waiting == 0)
