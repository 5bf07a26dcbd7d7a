"""The table of bad input: what may come in over a socket, and the one answer that it gets.

`json_bodies` and `members` are bodies, `framing` is where a body ends, `heads` everything before
it, `keys` who asks. The tests over the table are `tests/acceptance/test_bad_input.py`.
"""

from __future__ import annotations

from dataclasses import replace

from tests.acceptance.bad_inputs import framing, heads, json_bodies, keys, members
from tests.acceptance.bad_inputs.case import Case

CASES: tuple[Case, ...] = (
    *(replace(case, is_recorded=True) for case in (*json_bodies.CASES, *members.CASES)),
    *framing.CASES,
    *heads.CASES,
    *keys.CASES,
)
