"""Answers that hold for the rest of their minute (spec: Limits, 60-second result cache).

A minute of the wall clock is a bucket: whoever asks for the same within it gets the same bytes, in
every case within 60 seconds of their making. Many who ask at once share one reading; a reading that
fails is told to those who waited for it and forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from actors.clock import Clock

BUCKET_SECONDS = 60
# An answer has some kilobytes; beyond this the oldest of the minute are made anew when asked for.
ANSWERS_MAX = 500


class SummaryCache:
    """The answers of the present minute, made or being made."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._minute = 0
        self._answers: dict[Hashable, asyncio.Task[bytes]] = {}

    def __repr__(self) -> str:
        return f"<SummaryCache {len(self._answers)} answers of minute {self._minute}>"

    async def get(
        self, question: Hashable, answer: Callable[[], Coroutine[Any, Any, bytes]]
    ) -> bytes:
        """The answer to a question; made by `answer`, whose error is raised, when there is none.

        A caller that is cancelled leaves the making to the others.
        """
        minute = int(self._clock.now() // BUCKET_SECONDS)
        if minute != self._minute:
            self._minute, self._answers = minute, {}
        task = self._answers.get(question)
        if task is None:
            while len(self._answers) >= ANSWERS_MAX:
                del self._answers[next(iter(self._answers))]
            task = self._answers[question] = asyncio.create_task(answer())
            answers = self._answers
            task.add_done_callback(lambda done: _forget_failed(answers, question, done))
        await asyncio.wait([task])
        return task.result()


def _forget_failed(
    answers: dict[Hashable, asyncio.Task[bytes]], question: Hashable, task: asyncio.Task[bytes]
) -> None:
    has_failed = task.cancelled() or task.exception() is not None
    if has_failed and answers.get(question) is task:
        del answers[question]
