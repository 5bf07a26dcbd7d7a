"""A process that begins two jobs, hands over the first, says so, and lives until it is killed."""

from __future__ import annotations

import asyncio
import os
import sys

from tests.integration.actors.process import process


async def main(url: str) -> None:
    async with process(url, "proc_holder", pid=os.getpid()) as mine:
        facts = await mine.hold(job_id="job_begun")
        assert await mine.wallets.hand_over(facts)
        await mine.hold(job_id="job_submitting")
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
