"""The runbooks as tests read them: what they quote, which of it are commands, who follows which.

A test that makes the state of a runbook is marked with `about` and runs its commands in it.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])

RUNBOOKS = sorted((Path(__file__).parents[2] / "ops" / "runbooks").glob("*.md"))
# Programs of the host that a shell runs, by the first word.
PROGRAMS = ("PGPASSWORD=$(cat", "ls", "prlimit", "psql", "ss", "ulimit")
# What stands between backticks and is run, by its first word.
RUN = ("gw", "SELECT", "POST", "GET", *PROGRAMS)
# Which tests make the state of a runbook.
STATES: dict[str, list[str]] = {}


def about(*runbooks: str) -> Callable[[Test], Test]:
    """Say which runbooks a test follows; of one with a parameter `runbook`, one at a time."""

    def marked(test: Test) -> Test:
        for name in runbooks:
            STATES.setdefault(name, []).append(test.__name__)
        test.__dict__["runbooks"] = runbooks
        return test

    return marked


def quoted_in(text: str) -> list[str]:
    """What stands between backticks, in its order."""
    return re.findall(r"`([^`]+)`", " ".join(text.split()))


def commands_in(text: str, texts: frozenset[str] = frozenset()) -> list[str]:
    """The commands in a part of a runbook, in their order; `texts` are none, whatever they say."""
    return [
        quoted
        for quoted in quoted_in(text)
        if " " in quoted and quoted.split(" ")[0] in RUN and quoted not in texts
    ]
