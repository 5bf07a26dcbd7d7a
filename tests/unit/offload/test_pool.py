"""Work beside the event loop: the jobs, the pool, its processes."""

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.offload.pool import (
    PROCESSES_MAX,
    OffloadFailed,
    OffloadFull,
    OffloadPool,
    Turns,
    Work,
)
from channels.offload.process import JobTooLong
from tests.support.aio import eventually
from tests.support.rows import cases
from tests.unit.offload import strange_jobs

BODY = b"0123456789" * 100_000


@pytest.fixture
def pool() -> Iterator[OffloadPool]:
    made = OffloadPool(processes_max=1, queued_bytes_max=6 * len(BODY), queued_jobs_max=6)
    yield made
    made.close()


async def test_job_brings_back_its_result_and_its_body(pool: OffloadPool) -> None:
    assert pool.pids == []  # none is made before it is needed
    assert await pool.of("a").run(strange_jobs.size, BODY, 7) == (len(BODY) + 7, BODY * 2)
    assert await pool.of("a").run(strange_jobs.size, b"", 0) == (0, b"")
    assert len(pool.pids) == 1


async def test_what_a_job_raises_is_raised(pool: OffloadPool) -> None:
    with pytest.raises(ValueError, match="1000000 bytes are not to be had"):
        await pool.of("a").run(strange_jobs.fails, BODY)
    assert (await pool.of("a").run(strange_jobs.size, b"x", 0))[0] == 1


async def test_body_of_a_job_that_failed_is_kept_by_nobody(pool: OffloadPool) -> None:
    """The collector comes by seldom, and large bodies that wait for it add up."""
    body = bytes(1_000_000)
    references = sys.getrefcount(body)
    gc.disable()
    try:
        for job in (strange_jobs.fails, strange_jobs.dies):
            with pytest.raises((ValueError, OffloadFailed)):
                await pool.of("a").run(job, body)
            await eventually(lambda: sys.getrefcount(body) == references, what="its last reference")
    finally:
        gc.enable()


async def test_process_that_dies_is_replaced(pool: OffloadPool, tmp_path: Path) -> None:
    marker = str(tmp_path / "tried")
    assert await pool.of("a").run(strange_jobs.dies_once, BODY, marker) == ("done", None)
    (pid,) = pool.pids
    os.kill(pid, 9)
    assert (await pool.of("a").run(strange_jobs.size, b"x", 0))[0] == 1
    assert pool.pids != [pid]


async def test_body_that_kills_every_process_is_given_up(pool: OffloadPool) -> None:
    with pytest.raises(OffloadFailed):
        await pool.of("a").run(strange_jobs.dies, BODY)
    assert (await pool.of("a").run(strange_jobs.size, b"x", 0))[0] == 1


async def test_job_without_an_end_is_ended(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=1, job_seconds_max=0.5)
    with pytest.raises(OffloadFailed):
        await pool.of("a").run(strange_jobs.waits, BODY, str(tmp_path / "never"))
    assert pool.pids == []
    pool.close()


async def test_job_that_takes_too_much_of_the_processor_is_not_tried_again(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=1, job_cpu_seconds_max=0.05)
    tries = tmp_path / "tries"
    with pytest.raises(JobTooLong):
        await pool.of("a").run(strange_jobs.computes, BODY, str(tries))
    assert tries.read_text() == "."
    assert pool.pids == []
    # The start of a process takes longer than that, and is not counted.
    assert (await pool.of("a").run(strange_jobs.size, b"x", 0))[0] == 1
    pool.close()


async def test_accounts_take_turns_and_none_has_every_process(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=2)
    marker, began = tmp_path / "go on", tmp_path / "began"
    held = [
        asyncio.create_task(pool.of("a").run(strange_jobs.waits, BODY, str(marker), str(began)))
        for _ in range(3)
    ]
    # Another account's job has its process while all of the first's are stopped.
    assert (await pool.of("b").run(strange_jobs.size, BODY, 0))[0] == len(BODY)
    await eventually(lambda: began.exists() and began.read_text() == ".", what="the first job")
    held[2].cancel()
    await asyncio.wait([held[2]])
    assert "2 jobs" in repr(pool)
    marker.touch()
    await asyncio.gather(*held[:2])
    assert began.read_text() == ".."
    assert "<Turns of 0 accounts, 0 jobs, 0 bytes>" in repr(pool)
    pool.close()


def work(size: int) -> Work:
    return Work(strange_jobs.size, bytes(size), (0,))


def taken(turns: Turns, names: dict[object, str]) -> str:
    """Whose job is next; empty: none may begin."""
    next_ = turns.take()
    return "" if next_ is None else names[next_[0]]


def test_turns_go_round_the_accounts() -> None:
    assert PROCESSES_MAX >= 2
    turns = Turns(processes_max=100, bytes_max=1000, jobs_max=100)
    names: dict[object, str] = {}
    for account in ("a", "a", "a", "b", "b", "c"):
        future = turns.join(account, work(1))
        names[future] = account
    left = turns.join("b", work(1))
    turns.leave("b", 1, left)
    assert [taken(turns, names) for _ in range(7)] == ["a", "b", "c", "a", "b", "a", ""]


def test_an_account_has_all_processes_but_one() -> None:
    turns = Turns(processes_max=3, bytes_max=1000, jobs_max=100)
    names: dict[object, str] = {}
    for _ in range(3):
        names[turns.join("a", work(1))] = "a"
    assert [taken(turns, names) for _ in range(3)] == ["a", "a", ""]
    names[turns.join("b", work(1))] = "b"
    assert taken(turns, names) == "b"
    turns.leave("a", 1, next(iter(names)))  # type: ignore[arg-type]
    assert taken(turns, names) == "a"


@cases("size, bytes_max, jobs_max", (10, 60, 100), (1, 1000, 6))
def test_an_account_leaves_as_much_room_as_it_has(size: int, bytes_max: int, jobs_max: int) -> None:
    turns = Turns(processes_max=2, bytes_max=bytes_max, jobs_max=jobs_max)
    for account, count in (("a", 3), ("b", 1), ("c", 1), ("d", 1), ("e", 0)):
        for _ in range(count):
            turns.join(account, work(size))
        with pytest.raises(OffloadFull):
            turns.join(account, work(size))
    assert (turns.jobs, turns.bytes) == (6, 6 * size)


async def test_place_of_a_caller_that_leaves_is_free_at_once(
    pool: OffloadPool, tmp_path: Path
) -> None:
    marker = tmp_path / "go on"
    jobs = [
        asyncio.create_task(pool.of("a").run(strange_jobs.waits, BODY, str(marker)))
        for _ in range(3)
    ]
    await asyncio.sleep(0)
    with pytest.raises(OffloadFull):
        await pool.of("a").run(strange_jobs.size, BODY, 0)
    jobs[2].cancel()
    await asyncio.wait([jobs[2]])
    last = asyncio.create_task(pool.of("a").run(strange_jobs.size, BODY, 0))
    await asyncio.sleep(0)
    marker.touch()
    await asyncio.gather(*jobs[:2])
    assert (await last)[0] == len(BODY)


async def test_one_body_is_always_taken(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=1, queued_bytes_max=10)
    assert (await pool.of("a").run(strange_jobs.size, BODY, 0))[0] == len(BODY)
    pool.close()


async def test_processes_without_work_are_ended_and_made_again(pool: OffloadPool) -> None:
    await pool.of("a").run(strange_jobs.size, b"x", 0)
    pool.rest()
    assert pool.pids == []
    assert (await pool.of("a").run(strange_jobs.size, b"x", 0))[0] == 1


async def test_closed_pool_takes_nothing(pool: OffloadPool) -> None:
    await pool.of("a").run(strange_jobs.size, b"x", 0)
    (pid,) = pool.pids
    pool.close()
    with pytest.raises(OffloadFull):
        await pool.of("a").run(strange_jobs.size, b"x", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
