"""Links that have expired: asked for again once a minute, kept when they are new, never waited for
long."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import msgspec
import pytest
import ujson

from actors.jobs import ending
from actors.jobs.ending import LINK_SECONDS, LinkRenewal
from actors.jobs.job import Job
from actors.jobs.store import SQL
from channels.media.canonical import AvatarResult, TaskResult, VideoResult
from tests.support.aio import eventually
from tests.support.clock import FakeClock
from tests.support.jobs import polled
from tests.support.upstreams import ScriptedUpstreams


class Database:
    """Lets each job be asked for once, and remembers what is kept."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.kept: dict[str, Any] = {}

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        if sql == SQL["claim_renewals"]:
            ids = [name for name in params[0] if name not in self.claimed]
            self.claimed.update(ids)
            return [(name,) for name in ids]
        assert sql == SQL["renew_result"]
        self.kept[params[1]] = ujson.loads(params[0])
        return []


class Scene:
    """A renewal on fakes."""

    def __init__(self) -> None:
        self.clock, self.database, self.upstreams = FakeClock(), Database(), ScriptedUpstreams()
        self.renewal = LinkRenewal(
            database=self.database, upstreams=self.upstreams, clock=self.clock
        )

    def job(self, number: int = 1, result: TaskResult | None = None, **said: Any) -> Job:
        """A film whose link ended a second ago."""
        old = VideoResult(
            url="https://cdn.example/old", expires_at=self.clock.now() - 1, milliseconds=4000
        )
        usual: dict[str, Any] = {
            "id": f"vid_{number}",
            "kind": "video",
            "state": "succeeded",
            "account_id": "acct_a",
            "key_id": "key_a",
            "call_id": UUID(int=number),
            "protocol": "videos",
            "model": "film",
            "request": {},
            "price": {"per_second": "0.1"},
            "quantity": 4000,
            "held": 4000,
            "submitted_at": 0.0,
            "deadline_at": 1.0,
            "channel_id": "film-a",
            "wire": "videos",
            "upstream_model": "film",
            "upstream_id": f"up_{number}",
            "progress": None,
            "stored_result": msgspec.to_builtins(result or old),
            "error_code": None,
            "error_message": None,
            "ended_at": 1.0,
        }
        return Job(**{**usual, **said})

    def film(self, url: str | None, seconds: float | None) -> VideoResult:
        at = None if seconds is None else self.clock.now() + seconds
        return VideoResult(url=url, expires_at=at)


async def test_new_link_is_shown_and_kept_with_what_was_paid_for() -> None:
    s = Scene()
    job = s.job()
    s.upstreams.say("up_1", polled("succeeded", result=s.film("https://cdn.example/new", 60)))
    (shown,) = await s.renewal.renewed([job])
    assert isinstance(shown.result, VideoResult)
    assert (shown.result.url, shown.result.milliseconds) == ("https://cdn.example/new", 4000)
    assert s.database.kept["vid_1"]["url"] == "https://cdn.example/new"


async def test_link_that_is_good_and_what_has_none_are_not_asked_for() -> None:
    s = Scene()
    good = s.job(1, s.film("https://cdn.example/good", 60))
    avatar = s.job(2, AvatarResult(upstream_id="a"), kind="avatar")
    running = s.job(3, stored_result=None, state="running")
    jobs = [good, avatar, running]
    assert await s.renewal.renewed(jobs) == jobs
    assert s.upstreams.asked == []
    assert not s.database.claimed


@pytest.mark.parametrize(
    "said",
    [
        polled("queued"),
        polled("failed"),
        polled("succeeded", result=VideoResult(url="https://cdn.example/old")),
        polled("succeeded", result=VideoResult(url="https://cdn.example/x", expires_at=1.0)),
    ],
    ids=["queued", "failed", "the old one", "one that is over"],
)
async def test_without_a_new_link_the_old_one_stays(said: Any) -> None:
    s = Scene()
    job = s.job()
    s.upstreams.say("up_1", said)
    assert await s.renewal.renewed([job]) == [job]
    assert s.database.kept == {}
    await s.renewal.renewed([job])
    assert len(s.upstreams.asked) == 1  # the minute is not over


async def test_link_of_ours_is_good_for_another_while_and_nobody_is_asked() -> None:
    s = Scene()
    (shown,) = await s.renewal.renewed([s.job(result=s.film(None, -1))])
    assert isinstance(shown.result, VideoResult)
    assert shown.result.expires_at == s.clock.now() + LINK_SECONDS
    assert s.upstreams.asked == []


async def test_nobody_waits_long_and_the_next_one_gets_what_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ending, "WAIT_SECONDS", 0.01)
    s = Scene()
    s.upstreams.gate = asyncio.Event()
    s.upstreams.say("up_1", polled("succeeded", result=s.film("https://cdn.example/new", 60)))
    job = s.job()
    assert await s.renewal.renewed([job]) == [job]
    s.upstreams.gate.set()
    await eventually(lambda: "vid_1" in s.database.kept)


async def test_questions_of_one_process_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(ending, "POLLS_MAX", 3)
    s = Scene()
    s.upstreams.gate = asyncio.Event()
    jobs = [s.job(number) for number in range(10)]
    assert await s.renewal.renewed(jobs) == jobs
    assert len(s.database.claimed) == s.upstreams.waiting == 3
    s.upstreams.gate.set()
    await eventually(lambda: s.upstreams.waiting == 0)
