"""Run the simulator as a process: `python -m loadtests.simulator --host H --port P --seed N`.

When it accepts requests it writes one line to stderr, `ready listen=http://HOST:PORT`.
SIGTERM and SIGINT end it at once, with exit status 0.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Callable, Sequence

import loadtests.simulator
from channels.open_files import raise_open_files
from loadtests.options import options_of
from loadtests.simulator.directives import DirectiveError
from loadtests.simulator.engine import MODELS, TASK_SECONDS
from loadtests.simulator.exchange import RING_REQUESTS
from loadtests.simulator.server import Simulator


def main(
    host: str = "127.0.0.1",
    port: int = 0,
    seed: int = 7,
    task_seconds: float = TASK_SECONDS,
    requests_kept: int = RING_REQUESTS,
    models: Sequence[str] = MODELS,
    directive: str = "",
) -> int:
    """Serve until a signal. Port 0 is any free one; answers follow from the seed.

    `--task-seconds` is how long a film or a song takes, `--requests-kept` how many requests are
    remembered, `--models` are those in the list of models, `--directive` is one for everybody.
    """
    simulator = Simulator(
        host=host,
        port=port,
        seed=seed,
        task_seconds=task_seconds,
        requests_kept=requests_kept,
        models=models,
    )
    if directive:
        try:
            simulator.engine.faults.put(None, directive)
        except DirectiveError as error:
            print(error, file=sys.stderr)
            return 2
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_serve(simulator))
        except OSError as error:
            print(f"cannot listen on {host}:{port}: {error}", file=sys.stderr)
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


if __name__ == "__main__":
    manual = loadtests.simulator.__doc__ or ""
    given = options_of(main, sys.argv[1:], prog="python -m loadtests.simulator", about=manual)
    sys.exit(main(**given))
