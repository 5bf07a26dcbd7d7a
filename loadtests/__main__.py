"""python -m loadtests SCENARIO [options]: try or measure one thing; `--help` describes it.

A scenario is a function; its parameters are its options. It starts everything it needs and prints
what it found; the exit code is 1 when something was not as it should be. The benchmark
(`./ops/bench`) and the load of many users (`./ops/load`) are programs of their own.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from loadtests.options import options_of

SCENARIOS: Mapping[str, str] = {
    "chaos": "loadtests.chaos.run",
    "connections": "loadtests.attacks.connections",
    "frozen_process": "loadtests.attacks.frozen_process",
    "kills": "loadtests.chaos.reports",
    "large_bodies": "loadtests.attacks.large_bodies",
    "latency": "loadtests.knowledge.latency",
    "logs": "loadtests.logs",
    "overload": "loadtests.attacks.overload",
    "pause": "loadtests.chaos.reports",
    "relevance": "loadtests.knowledge.relevance",
    "rolling_restart": "loadtests.attacks.rolling_restart",
}


def main(arguments: Sequence[str]) -> int:
    """Run the scenario that is named first."""
    name = arguments[0] if arguments else ""
    if name not in SCENARIOS:
        print(f"{__doc__}\nScenarios: {', '.join(SCENARIOS)}", file=sys.stderr)
        return 0 if name in ("-h", "--help") else 2
    try:
        module = import_module(SCENARIOS[name])
    except ModuleNotFoundError as missing:
        if not SCENARIOS[name].startswith(str(missing.name)):
            raise
        print(f"{name}: needs a checkout of the project", file=sys.stderr)
        return 2
    scenario = getattr(module, name)
    about = module.__doc__ or ""
    given = options_of(scenario, arguments[1:], prog=f"python -m loadtests {name}", about=about)
    return 1 if scenario(**given) is False else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
