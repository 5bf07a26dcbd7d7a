"""A process that begins two jobs, hands over the first, says so, and lives until it is killed."""

import asyncio
import os
import sys

from actors.jobs import store
from tests.integration.actors.process import process
from tests.support.jobs import acceptance


async def main(url: str) -> None:
    async with process(url, "proc_holder", pid=os.getpid()) as mine:
        facts = await mine.hold(job_id="job_begun")
        assert await store.accept(mine.database, facts, acceptance(), pause_seconds=60.0)
        await mine.hold(job_id="job_submitting")
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
