"""Strike with every fault under load, and print what became of the calls: `./ops/chaos`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from loadtests.chaos.faults import FAULTS
from loadtests.chaos.judge import shown
from loadtests.chaos.run import HEAD, Result, page, row, run

TABLE = Path(__file__).resolve().parents[1] / "chaos.md"
RATE = 25.0
SECONDS = 6.0


def main() -> int:
    """The command line; 1 when a promise was broken."""
    options = _options()
    results = []
    print(HEAD, flush=True)
    for name in options.only or FAULTS:
        result = asyncio.run(
            run(
                name,
                FAULTS[name],
                seed=options.seed,
                rate=options.rate,
                seconds=options.seconds or FAULTS[name].seconds or SECONDS,
            )
        )
        results.append(result)
        print(row(result), flush=True)
        _complain(result, options.logs)
    write = options.write or (None if options.only else TABLE)
    if write is not None:
        write.write_text(page(results, _command(options)), encoding="utf-8")
    broken = sum(not result.is_kept for result in results)
    print(f"{len(results)} faults, {broken} of them broke a promise")
    return 1 if broken else 0


def _complain(result: Result, logs: Path | None) -> None:
    for breach in shown(result.verdict.breaches):
        print(f"  {result.name}: {breach}", flush=True)
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
        (logs / f"{result.name}.log").write_text("\n".join(result.log), encoding="utf-8")


def _command(options: argparse.Namespace) -> str:
    """What gives the same table, as far as chance allows."""
    only = ["--only", *options.only] if options.only else []
    seconds = ["--seconds", f"{options.seconds:g}"] if options.seconds else []
    rate, seed = f"{options.rate:g}", str(options.seed)
    return " ".join(["./ops/chaos", *only, *seconds, "--rate", rate, "--seed", seed])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    names = ", ".join(FAULTS)
    parser.add_argument("--only", nargs="+", choices=FAULTS, metavar="FAULT", help=names)
    parser.add_argument("--seconds", type=float, help=f"of each fault ({SECONDS:g}; paused: 20)")
    parser.add_argument("--rate", type=float, default=RATE, help=f"calls a second ({RATE:g})")
    parser.add_argument("--seed", type=int, default=1, help="chance follows from it (1)")
    parser.add_argument("--write", type=Path, help="the table to a file; all faults: chaos.md")
    parser.add_argument("--logs", type=Path, help="a folder for what the gateways logged")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
