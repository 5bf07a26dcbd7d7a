"""The processes that work on large bodies: what they bring back, and what becomes of lost ones."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.offload.pool import OffloadFailed, OffloadFull, OffloadPool
from tests.support.aio import eventually
from tests.unit.offload import strange_jobs

BODY = b"0123456789" * 100_000


@pytest.fixture
def pool() -> Iterator[OffloadPool]:
    made = OffloadPool(processes_max=1, queued_bytes_max=3 * len(BODY), queued_jobs_max=3)
    yield made
    made.close()


async def test_job_brings_back_its_result_and_its_body(pool: OffloadPool) -> None:
    assert pool.pids == []  # none is made before it is needed
    assert await pool.run(strange_jobs.size, BODY, 7) == (len(BODY) + 7, BODY * 2)
    assert await pool.run(strange_jobs.size, b"", 0) == (0, b"")
    assert len(pool.pids) == 1


async def test_what_a_job_raises_is_raised(pool: OffloadPool) -> None:
    with pytest.raises(ValueError, match="1000000 bytes are not to be had"):
        await pool.run(strange_jobs.fails, BODY)
    assert (await pool.run(strange_jobs.size, b"x", 0))[0] == 1


async def test_body_of_a_job_that_failed_is_kept_by_nobody(pool: OffloadPool) -> None:
    """The collector comes by seldom, and large bodies that wait for it add up."""
    body = bytes(1_000_000)
    references = sys.getrefcount(body)
    gc.disable()
    try:
        for job in (strange_jobs.fails, strange_jobs.dies):
            with pytest.raises((ValueError, OffloadFailed)):
                await pool.run(job, body)
            await eventually(lambda: sys.getrefcount(body) == references, what="its last reference")
    finally:
        gc.enable()


async def test_process_that_dies_is_replaced(pool: OffloadPool, tmp_path: Path) -> None:
    marker = str(tmp_path / "tried")
    assert await pool.run(strange_jobs.dies_once, BODY, marker) == ("done", None)
    (pid,) = pool.pids
    os.kill(pid, 9)
    assert (await pool.run(strange_jobs.size, b"x", 0))[0] == 1
    assert pool.pids != [pid]


async def test_body_that_kills_every_process_is_given_up(pool: OffloadPool) -> None:
    with pytest.raises(OffloadFailed):
        await pool.run(strange_jobs.dies, BODY)
    assert (await pool.run(strange_jobs.size, b"x", 0))[0] == 1


async def test_job_without_an_end_is_ended(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=1, job_seconds_max=0.5)
    with pytest.raises(OffloadFailed):
        await pool.run(strange_jobs.waits, BODY, str(tmp_path / "never"))
    assert pool.pids == []
    pool.close()


async def test_no_more_waits_than_there_is_room_for(pool: OffloadPool, tmp_path: Path) -> None:
    marker = tmp_path / "go on"
    jobs = [asyncio.create_task(pool.run(strange_jobs.waits, BODY, str(marker))) for _ in range(3)]
    await asyncio.sleep(0)
    for body in (BODY, b""):  # too many bytes, too many jobs
        with pytest.raises(OffloadFull):
            await pool.run(strange_jobs.size, body, 0)
    jobs[2].cancel()  # it had not begun: its place is free at once
    await asyncio.wait([jobs[2]])
    last = asyncio.create_task(pool.run(strange_jobs.size, BODY, 0))
    await asyncio.sleep(0)
    marker.touch()
    await asyncio.gather(*jobs[:2])
    assert (await last)[0] == len(BODY)


async def test_one_body_is_always_taken(tmp_path: Path) -> None:
    pool = OffloadPool(processes_max=1, queued_bytes_max=10)
    assert (await pool.run(strange_jobs.size, BODY, 0))[0] == len(BODY)
    pool.close()


async def test_processes_without_work_are_ended_and_made_again(pool: OffloadPool) -> None:
    await pool.run(strange_jobs.size, b"x", 0)
    pool.rest()
    assert pool.pids == []
    assert (await pool.run(strange_jobs.size, b"x", 0))[0] == 1


async def test_closed_pool_takes_nothing(pool: OffloadPool) -> None:
    await pool.run(strange_jobs.size, b"x", 0)
    (pid,) = pool.pids
    pool.close()
    with pytest.raises(OffloadFull):
        await pool.run(strange_jobs.size, b"x", 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
