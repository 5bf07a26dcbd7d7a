"""The table of bad input: what may come in over a socket, and the one answer that it gets.

`bodies` are bodies, `framing` is where a body ends, `heads` everything before it. The tests over
the table are `tests/acceptance/test_bad_input.py`.
"""

from tests.acceptance.bad_inputs import bodies, framing, heads
from tests.acceptance.bad_inputs.case import Case

CASES: tuple[Case, ...] = (*bodies.CASES, *framing.CASES, *heads.CASES)
