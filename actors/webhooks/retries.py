"""When a delivery is tried again, by the outcome of its attempt: a table of pauses.

Pure: no clock, no database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from channels.http_date import read_http_date

# The outcomes that are no status of a response.
TIMEOUT, UNREACHABLE, REFUSED_ADDRESS = "timeout", "unreachable", "refused_address"

GONE = "410"
# Statuses of which `Retry-After` counts, up to a day.
_WAITING = frozenset({"429", "503"})
RETRY_AFTER_MAX = 86_400.0
# The part of a pause that chance adds or takes.
JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one attempt: the status of its response as text, or the word of a failure.

    `retry_after` is in seconds, of whichever status; None: the response stated none.
    """

    text: str
    retry_after: float | None = None

    @property
    def is_delivered(self) -> bool:
        """Whether the receiver took it."""
        return len(self.text) == 3 and self.text[0] == "2"

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants no more, of any event."""
        return self.text == GONE


def pause_after(
    outcome: Outcome, *, attempts: int, pauses: Sequence[float], chance: float
) -> float | None:
    """Return the seconds until the next attempt of a delivery that failed; None: it is dead.

    `attempts` includes the failed one; `chance` is from 0 to 1.
    """
    if attempts > len(pauses):
        return None
    pause = pauses[attempts - 1] * (1 - JITTER + 2 * JITTER * chance)
    if outcome.text in _WAITING and outcome.retry_after is not None:
        return max(pause, min(outcome.retry_after, RETRY_AFTER_MAX))
    return pause


def read_retry_after(header: str | None, now: float) -> float | None:
    """Return the seconds that `Retry-After` states, as a number or an instant; None for no such.

    `now` is in Unix seconds.
    """
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text) if len(text) < 10 else RETRY_AFTER_MAX
    instant = read_http_date(text)
    return None if instant is None else max(0.0, instant - now)
