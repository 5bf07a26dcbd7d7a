"""Runs one gateway process from the ready line to exit: signals, reloads, the event loop.

What the process is made of is `serve.py`; the commands that end up here are `gw serve` and
`gw demo`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from gw.config.config import Config
from gw.config.faults import ConfigFaults
from gw.config.load import load
from gw.serve import Gateway
from gw.web.fronts import DEFAULT_FRONT, Front
from metrics.logs import EventLog

T = TypeVar("T")

EXIT_OK = 0
EXIT_FAILED = 1


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where there is a build of it, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(main)
    return uvloop.run(main)


async def run_gateway(
    config: Config,
    *,
    reload_from: Path | None,
    front: Front = DEFAULT_FRONT,
    on_ready: Callable[[Gateway], Awaitable[None]] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code.

    SIGHUP reads `reload_from` again. A second SIGTERM or SIGINT does not hurry the drain.
    """
    log = EventLog("gw.run")
    raise_open_files()
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    gateway = Gateway(config, os.environ, front=front)
    await gateway.start()
    if reload_from is not None and hasattr(signal, "SIGHUP"):
        loop.add_signal_handler(signal.SIGHUP, _reload, gateway, reload_from, log)
    # What is alive now stays alive: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    ready = f"ready listen={gateway.listen_url} admin={gateway.admin_url}"
    try:
        print(ready, file=sys.stderr, flush=True)
        if on_ready is not None:
            await on_ready(gateway)
        gateway.failed.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
    finally:
        await gateway.stop()
    return EXIT_FAILED if gateway.failed.done() else EXIT_OK


def raise_open_files() -> None:
    """Open as many files as the system lets this user: each client and each channel takes one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (soft, resource.RLIM_INFINITY):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _reload(gateway: Gateway, path: Path, log: EventLog) -> None:
    """A bad file is refused as a whole and the old configuration stays (contract §1)."""
    try:
        config = load(path, os.environ)
    except ConfigFaults as faults:
        log.error("reload_refused", faults=[str(fault) for fault in faults.faults])
        return
    gateway.reload(config)
