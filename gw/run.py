"""Runs one gateway process for `gw serve` and `gw demo`: the event loop, signals, reloads.

The objects of the process are created in `serve.py`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from channels.open_files import raise_open_files
from gw import service_manager
from gw.config.config import Config
from gw.config.faults import ConfigFaults
from gw.config.reload import needing_restart
from gw.runtime.memory import freeze, keep_buffers
from gw.serve import Gateway
from metrics.logs import EventLog, set_level, write_line

T = TypeVar("T")

EXIT_OK = 0
EXIT_FAILED = 1
# All is done but for holds that the next process has to settle (`actors/recovery.py`).
EXIT_UNSETTLED = 3


def run_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run on uvloop where there is a build of it, else on asyncio's own loop."""
    try:
        import uvloop
    except ImportError:  # no wheel for this platform
        return asyncio.run(main)
    return uvloop.run(main)


def print_ready(gateway: Gateway) -> None:
    """The one line that reports that requests are accepted (running.md: Commands)."""
    write_line(f"ready listen={gateway.listen_url} admin={gateway.admin_url}")


async def run_gateway(
    config: Config,
    *,
    read_again: Callable[[], Config] | None,
    shares_port: bool = False,
    parent_socket: socket.socket | None = None,
    announce: Callable[[Gateway], None] = print_ready,
    on_ready: Callable[[Gateway], Awaitable[None]] | None = None,
    lifeline: Callable[[Gateway], Awaitable[object]] | None = None,
) -> int:
    """Serve until SIGTERM or SIGINT, or until `lifeline` ends; return the exit code.

    SIGHUP puts in force what `read_again` gives. A second SIGTERM or SIGINT does not hurry the
    drain.
    """
    set_level(config.log_level)
    raise_open_files()
    keep_buffers()
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    gateway = Gateway(config, os.environ, shares_port=shares_port, parent_socket=parent_socket)
    await gateway.start()

    if read_again is not None and hasattr(signal, "SIGHUP"):
        log_cautions(config)
        loop.add_signal_handler(signal.SIGHUP, _reload_file, gateway, read_again, config)
    freeze()
    try:
        announce(gateway)
        service_manager.notify(service_manager.READY)
        if on_ready is not None:
            await on_ready(gateway)
        gateway.failed.add_done_callback(lambda _: stopping.set())
        if lifeline is not None:
            holding = asyncio.ensure_future(lifeline(gateway))
            holding.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
    finally:
        service_manager.notify(service_manager.STOPPING)
        is_settled = await gateway.stop()
    if gateway.failed.done():
        return EXIT_FAILED
    return EXIT_OK if is_settled else EXIT_UNSETTLED


def reload(gateway: Gateway, read_again: Callable[[], Config]) -> Config | None:
    """Return the configuration that was read, with the keys that wait for a restart.

    None for a bad file: it is refused as a whole and the old one stays (running.md: Reloading).
    """
    try:
        wanted = read_again()
        gateway.reload(wanted)
    except ConfigFaults as faults:
        gateway.metrics.config.refused()
        EventLog("gw.run").error("reload_refused", faults=[str(fault) for fault in faults.faults])
        return None
    return wanted


def log_reload(running: Config, wanted: Config) -> None:
    """Log the changes that a new configuration makes."""
    log_cautions(wanted)
    keys = needing_restart(running, wanted)
    if keys:
        EventLog("gw.run").warning("configuration_needs_restart", keys=keys)


def log_cautions(config: Config) -> None:
    """Log settings that are allowed and probably mistakes."""
    log = EventLog("gw.run")
    for caution in config.cautions:
        log.warning("configuration_caution", path=caution.path, why=caution.message)


def _reload_file(gateway: Gateway, read_again: Callable[[], Config], running: Config) -> None:
    if (wanted := reload(gateway, read_again)) is not None:
        log_reload(running, wanted)
