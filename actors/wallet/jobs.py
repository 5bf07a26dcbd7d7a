"""What is said of a job along with the hold of its call and its settlement: frozen values.

A job is made in the transaction that holds its money and ends in the one that settles it, whoever
does so and for whatever reason, so that state, money and row cannot disagree. While its call is
being submitted the hold is its process's like any other: should that die, recovery gives it back
and the job has failed. Once an upstream has accepted it, the hold is the job's, and neither
recovery, nor the search for leaks, nor the drain of a process concerns itself with it. What jobs
are, and who ends them, is `actors/jobs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from channels.media.model import TaskKind

EndState: TypeAlias = Literal["succeeded", "failed", "expired", "cancelled"]
END_STATES: tuple[EndState, ...] = get_args(EndState)


class NewJob(Struct, frozen=True, kw_only=True):
    """The job that a call begins (`CallFacts.job_id`), in the transaction that holds its money.

    `price` is what it costs (`UnitPrice.stated`), fixed from here on. `quantity` is how much was
    asked for, in the unit of its kind: milliseconds of video, characters of speech, 1 of anything
    else; it counts where the upstream does not say how much was made. `request` is what answers
    need of what was asked; JSON values.
    """

    kind: TaskKind
    price: Mapping[str, str]
    quantity: int
    deadline_seconds: float
    request: Mapping[str, Any] = msgspec.field(default_factory=dict)


class JobEnd(Struct, frozen=True, kw_only=True):
    """How a job ends; error and instant are those of its row.

    `result` is a `TaskResult` as JSON values. `by` is a name of the one that ends it, used once: it
    is kept with the job, so that who ended it can tell.
    """

    state: EndState
    by: str
    result: Any = None
    progress: int | None = None
