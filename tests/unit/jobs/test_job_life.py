"""The life of one job on an in-memory twin of its tables."""

from dataclasses import dataclass, field
from typing import Any

import hypothesis

from actors.jobs.job import State
from actors.jobs.settlement import settlement_of
from actors.jobs.state_machine import (
    End,
    Watch,
)
from actors.jobs.store import Booked, Claimed
from tests.support.job_machine import BALANCE, CLAIM_SECONDS, DEADLINE_SECONDS, HOLD, JobMachine
from tests.support.jobs import CHANNEL
from tests.unit.jobs.test_settlement import opened


@dataclass
class Row:
    """What `job_polls` keeps of an open job."""

    due_at: float
    deadline_at: float
    leased_by: str | None = None
    polls: int = 0
    watch: Watch = field(default_factory=Watch)


class FakeJobMachine(JobMachine):
    """One row of each table; whatever is said to it takes effect at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.state: State = "submitting"
        self.progress: int | None = None
        self.row: Row | None = None
        self.held = 0
        self.costs: list[int] = []

    def begin(self) -> None:
        self.held = HOLD

    def accept(self) -> bool:
        if self.state == "submitting":
            self.state = "queued"
            self.row = Row(due_at=self.now, deadline_at=DEADLINE_SECONDS)
            return True
        return not self.is_failed

    def recover(self) -> None:
        if self.state == "submitting":
            self.state, self.held = "failed", 0
            self.costs.append(0)

    def claim(self, claim_id: str, *, limit: int = 8) -> list[Claimed]:
        row = self.row
        if row is None or row.due_at > self.now:
            return []
        before, row.leased_by, row.due_at = row.leased_by, claim_id, self.now + CLAIM_SECONDS
        return [
            Claimed(
                job_id="vid_1",
                claim_id=claim_id,
                kind="video",
                account_id="acct_a",
                model="m",
                channel_id=CHANNEL,
                upstream_protocol="videos",
                upstream_id="up_1",
                polls=row.polls,
                watch=row.watch,
                taken_from=before,
                lag_seconds=0.0,
                is_overdue=row.deadline_at <= self.now,
            )
        ]

    def book(self, booked: Booked) -> None:
        row = self.row
        if row is None or row.leased_by != booked.claimed.claim_id:
            return
        row.leased_by, row.watch, row.polls = None, booked.watch, row.polls + 1
        row.due_at = max(self.now, min(self.now + booked.pause_seconds, row.deadline_at))
        self.state, self.progress = booked.watch.state, booked.watch.progress

    def end(self, end: End) -> int | None:
        if self.row is None:
            return None
        outcome, _ = settlement_of(
            opened(),
            end,
            now=1.0,
            by="me",
            redact=str,
            content_link=lambda *_: "",
            upstream_cost=lambda *_: None,
        )
        self.row, self.state, self.held = None, end.state, 0
        self.costs.append(outcome.cost_nano_usd)
        return outcome.cost_nano_usd

    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    def look(self) -> tuple[State, int | None]:
        return self.state, self.progress

    def money(self) -> tuple[int, int]:
        return BALANCE - sum(self.costs), self.held

    def row_costs(self) -> list[int]:
        return self.costs

    def faults(self) -> list[Any]:
        return []


TestJobMachine = FakeJobMachine.TestCase
TestJobMachine.settings = hypothesis.settings(
    max_examples=100, stateful_step_count=50, deadline=None
)
