"""Run the simulator as a process: `python -m loadtests.simulator --host H --port P --seed N`.

When it accepts requests it writes one line to stderr, `ready listen=http://HOST:PORT`.
SIGTERM and SIGINT end it at once, with exit status 0.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal
import sys
from collections.abc import Callable

from channels.resources import raise_open_files
from loadtests.simulator.directives import DirectiveError, parse
from loadtests.simulator.engine import MODELS, TASK_SECONDS
from loadtests.simulator.exchange import RING_REQUESTS
from loadtests.simulator.server import Simulator


def main() -> int:
    options = _options()
    simulator = Simulator(
        host=options.host,
        port=options.port,
        seed=options.seed,
        task_seconds=options.task_seconds,
        requests_kept=options.requests_kept,
        models=options.models.split(","),
    )
    if options.directive is not None:
        try:
            simulator.engine.faults.put(None, parse(options.directive))
        except DirectiveError as error:
            print(error, file=sys.stderr)
            return 2
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_serve(simulator))
        except OSError as error:
            print(f"cannot listen on {options.host}:{options.port}: {error}", file=sys.stderr)
            return 1
    return 0


async def _serve(simulator: Simulator) -> None:
    raise_open_files()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    async with simulator:
        # What was made by now lives as long as the process: no need to walk it ever again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        print(f"ready listen={simulator.base_url}", file=sys.stderr, flush=True)
        await stopped.wait()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m loadtests.simulator",
        description="An upstream that speaks the four chat protocols and fails on request.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--seed", type=int, default=7, help="answers follow from it")
    parser.add_argument(
        "--task-seconds", type=float, default=TASK_SECONDS, help="how long a film or a song takes"
    )
    parser.add_argument(
        "--requests-kept",
        type=int,
        default=RING_REQUESTS,
        metavar="N",
        help="how many requests it remembers",
    )
    parser.add_argument(
        "--models", default=",".join(MODELS), metavar="A,B", help="those in its list of models"
    )
    parser.add_argument("--directive", help="a directive for everybody, as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
