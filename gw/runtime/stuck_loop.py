"""Logs where the event loop is stuck: what its thread runs while no callback gets its turn.

`loop_lag.py` measures a stall when it is over, and does not know what caused it. This is a thread
of its own, so it sees one that does not end, too. It waits for the interpreter's lock: a stall in
a library that keeps the lock is only seen by `loop_lag.py`.
"""

from __future__ import annotations

import sys
import threading
import traceback

from actors.clock import Clock
from metrics.logs import EventLog

ROUND_SECONDS = 0.5
# It counts its own rounds, since a process that was stopped as a whole has no stuck loop.
STUCK_ROUNDS = 4
# The innermost calls, which tell one cause from another.
FRAMES_MAX = 20


class StuckLoop:
    """Watches the loop on whose thread it is made. `run` may be called again after its end."""

    def __init__(
        self, *, clock: Clock, round_seconds: float = ROUND_SECONDS, log: EventLog | None = None
    ) -> None:
        self._clock = clock
        self._round_seconds = round_seconds
        self._log = log or EventLog("gw.runtime")
        self._thread_id = threading.get_ident()
        self._turns = 0

    def __repr__(self) -> str:
        return f"<StuckLoop {self._turns} turns>"

    async def run(self) -> None:
        """Count the turns of the loop, and have a thread look at the count, until cancelled."""
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended,), name="stuck_loop", daemon=True).start()
        try:
            while True:
                self._turns += 1
                await self._clock.sleep(self._round_seconds)
        finally:
            ended.set()

    def _watch(self, ended: threading.Event) -> None:
        seen, rounds = self._turns, 0
        while not ended.wait(self._round_seconds):
            turns = self._turns
            rounds = rounds + 1 if turns == seen else 0
            seen = turns
            if rounds == STUCK_ROUNDS:  # once, however long it lasts
                self._log.warning("loop_stuck", where=self._where())

    def _where(self) -> list[str]:
        """Return file, line and name of what the loop's thread runs, the innermost last."""
        frame = sys._current_frames().get(self._thread_id)
        stack = traceback.extract_stack(frame, limit=FRAMES_MAX) if frame else []
        return [f"{one.filename}:{one.lineno} {one.name}" for one in stack]
