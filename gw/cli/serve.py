"""`gw serve`: run the gateway until a signal stops it (running.md: Commands).

`gw/run.py` is imported only when needed: other commands start faster.
"""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS, Namespace
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from gw.cli.arguments import add_command, count
from gw.cli.context import find_config
from gw.cli.failures import CommandRefused
from gw.cli.output import print_line, to_json
from gw.config.load import load_text, read_text, reread_text

if TYPE_CHECKING:
    from gw.cli.arguments import Subparsers
    from gw.config.addresses import ListenAddress
    from gw.config.config import Config


class ServedUrls(Protocol):
    """The URLs of the gateway."""

    @property
    def listen_url(self) -> str: ...

    @property
    def admin_url(self) -> str: ...


OnReady = Callable[[ServedUrls], Awaitable[None]]


def add(nouns: Subparsers) -> None:
    """Add the command to the command line."""
    parser = add_command(nouns, "serve", "run the gateway until SIGTERM or Ctrl-C", serve)
    parser.add_argument(
        "--processes", metavar="N", type=count, default=1, help="processes that share the port (1)"
    )
    # The option with which the parent of several processes starts each of them.
    parser.add_argument("--worker", metavar="HOST:PORT", type=_address, help=SUPPRESS)
    parser.add_argument("--parent-socket", metavar="DESCRIPTOR", type=int, help=SUPPRESS)


def serve(options: Namespace) -> int:
    serving = _serving(options)
    from gw.run import run_loop
    from metrics.logs import configure

    configure(sys.stderr)
    try:
        return run_loop(serving)
    except OSError as error:
        raise CommandRefused(f"the gateway cannot run: {error}", "cannot_serve") from error


def _serving(options: Namespace) -> Coroutine[Any, Any, int]:
    """Return the coroutine to run; raises every fault of the configuration."""
    if options.worker is not None:
        return _worker(options)
    source = find_config(options)
    text = read_text(source)
    config = load_text(text, os.environ, source=source)
    on_ready = _announce if getattr(options, "json", False) else None
    if options.processes > 1:
        return _parent(config, text, options, on_ready)
    from gw.run import run_gateway

    return run_gateway(
        config,
        read_again=lambda: load_text(reread_text(config.source), os.environ, source=config.source),
        shares_port=True,  # with the process that replaces it (ops/decisions)
        on_ready=on_ready,
    )


def _worker(options: Namespace) -> Coroutine[Any, Any, int]:
    from gw.processes.worker_main import ParentGone, first_config, run_worker

    try:
        config = first_config(Path(options.config))
    except ParentGone:
        raise CommandRefused("the parent of this process has ended", "cannot_serve") from None
    return run_worker(
        config,
        address=options.worker,
        parent_descriptor=options.parent_socket,
    )


async def _parent(config: Config, text: str, options: Namespace, on_ready: OnReady | None) -> int:
    from gw.processes.parent import run_parent
    from gw.processes.worker import WorkerFailed

    try:
        return await run_parent(config, text, count=options.processes, on_ready=on_ready)
    except WorkerFailed as failed:
        raise CommandRefused(f"the gateway cannot run: {failed}", "cannot_serve") from failed


async def _announce(served: ServedUrls) -> None:
    record = {"listen": served.listen_url, "admin": served.admin_url, "pid": os.getpid()}
    print_line(to_json(record))


def _address(text: str) -> ListenAddress:
    from gw.config.addresses import ListenAddress

    host, _, port = text.rpartition(":")
    return ListenAddress(host.strip("[]"), int(port))
