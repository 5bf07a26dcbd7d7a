"""`gw demo`: the complete gateway on one machine without any configuration, until Ctrl-C.

The upstream simulator runs in a process of its own; the gateway runs in this one, on an embedded
PostgreSQL below the data folder, with an account that has credit. The configuration is written to
a file that the other commands can use. A second demo finds the same account and key again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import ujson

from gw.admin.audit import Actor
from gw.config.config import Config
from gw.config.load import load
from gw.console.sessions import link_url, make_link
from gw.demo.account import open_account
from gw.demo.agent import open_agent
from gw.demo.configuration import MODELS, TASK_SECONDS, write_configuration
from gw.demo.summary import Demo, summary_of
from gw.run import run_gateway
from gw.serve import Gateway
from metrics.environment import inherited
from metrics.logs import write_line

READY_SECONDS = 30.0


class SimulatorMissing(Exception):
    """The upstream simulator did not start."""


async def run_demo(path: Path, *, is_json: bool) -> int:
    """Run until Ctrl-C or SIGTERM, with the configuration at `path`; return the exit code."""
    async with _simulator() as upstream:
        write_configuration(path, upstream)

        async def show(gateway: Gateway) -> None:
            key = await open_account(gateway.database, gateway.secret)
            agent = await open_agent(gateway, key.account_id)
            async with gateway.database.transaction() as transaction:
                token = await make_link(transaction, Actor.of_this_process(), account_id=None)
            sign_in = link_url(gateway.console_url, token)
            demo = Demo(gateway.listen_url, gateway.admin_url, sign_in, path, key, agent)
            print(_as_json(demo) if is_json else summary_of(demo), flush=True)

        def read() -> Config:
            return load(path, os.environ)

        return await run_gateway(read(), read_again=read, on_ready=show)


@asynccontextmanager
async def _simulator() -> AsyncIterator[str]:
    """Run the simulator; yield its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loadtests.simulator",
        "--port",
        "0",
        "--task-seconds",
        str(TASK_SECONDS),
        "--models",
        *MODELS,
        stderr=asyncio.subprocess.PIPE,
        env=inherited(),
        # Ctrl-C reaches the terminal's whole group; the simulator must outlive draining calls.
        start_new_session=True,
    )
    assert process.stderr is not None
    drained: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(READY_SECONDS):
            while line := (await process.stderr.readline()).decode():
                if line.startswith("ready listen="):
                    break
            else:
                raise SimulatorMissing
        drained = asyncio.create_task(_pass_on(process.stderr))
        yield line.partition("=")[2].split()[0]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        if drained is not None:
            await drained


async def _pass_on(stream: asyncio.StreamReader) -> None:
    async for line in stream:
        write_line(line.decode(errors="replace").rstrip("\n"))


def _as_json(demo: Demo) -> str:
    return str(
        ujson.dumps(
            {
                "base_url": demo.url,
                "admin_url": demo.admin_url,
                "console": demo.sign_in,
                "key": demo.key.text,
                "key_id": demo.key.key_id,
                "account_id": demo.key.account_id,
                "agent_id": demo.agent and demo.agent.id,
                "agent_key": demo.agent and demo.agent.key,
                "config": str(demo.config),
            },
            escape_forward_slashes=False,
        )
    )
