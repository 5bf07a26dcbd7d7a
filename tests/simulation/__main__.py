"""Run seeds and say what they brought: `python -m tests.simulation --seeds N`.

Exits with 1 when a rule was broken; the seed of it, and `--trace`, show how it came to that.
"""

import argparse
import multiprocessing
import os
import sys
from collections import Counter

from tests.simulation.run import Report, simulate

# Of one seed; a breach that matters is seen in its last lines.
TRACE_LINES = 60


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, metavar="N", help="how many")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first of them")
    parser.add_argument("--seed", type=int, metavar="N", help="this one alone")
    parser.add_argument("--trace", action="store_true", help="print all that happens in a seed")
    options = parser.parse_args()
    if options.seed is not None:
        return _show([simulate(options.seed)], has_trace=options.trace)
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.Pool(os.cpu_count()) as pool:
        return _show(pool.imap_unordered(simulate, seeds, chunksize=10), has_trace=options.trace)


def _show(reports: object, *, has_trace: bool) -> int:
    counts: Counter[str] = Counter()
    broken: list[Report] = []
    number = 0
    assert hasattr(reports, "__iter__")
    for report in reports:
        number += 1
        counts += report.counts
        if report.breach is not None:
            broken.append(report)
            print(f"seed {report.seed}: {report.breach}", flush=True)
            print("\n".join(report.trace if has_trace else report.trace[-TRACE_LINES:]))
        elif has_trace:
            print("\n".join(report.trace))
    for name, count in sorted(counts.items()):
        print(f"{count:10,} {name}")
    print(f"{number:10,} seeds, {len(broken)} of them broke a rule")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
