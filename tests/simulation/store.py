"""The database of the simulation: the ledger's in-memory twin, jobs and processes beside it.

Statements take effect at once and whole; how they come and go is `reach.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any
from uuid import UUID

import ujson

from actors.changes import CHANGES_CHANNEL
from actors.changes import SQL as CHANGES_SQL
from actors.jobs.store import SQL as JOBS_SQL
from actors.process import SQL as PROCESS_SQL
from actors.wallet.neighbours import CHANNEL as NEIGHBOURS_CHANNEL
from actors.wallet.neighbours import LEDGER
from actors.wallet.neighbours import SQL as NEIGHBOURS_SQL
from gw.budgets.matching import SQL as MATCHING_SQL
from gw.keys.store import SQL as KEY_SQL
from tests.simulation.budgets import BudgetTable
from tests.simulation.copies import CopyTable
from tests.simulation.keys import KeyTables, Tenant
from tests.simulation.loop import LoopClock
from tests.support.fake_jobs import FakeJobs, Hold
from tests.unit.actors.fake_store import FakeStore

OPEN = ("submitting", "queued", "running")
# Of jobs, those that only the simulation knows.
STATEMENTS = ("claim", "gone_channels", "book", "open", "ended", "in_flight", "quiet")
# So long nothing is leased of an account after its leases were called back.
UNLEASED_SECONDS = 3.0
# A period of a node that has any: borders are passed while calls, leases and settlements are under
# way.
DAY_SECONDS = 20.0
BOOKED = ("ids", "claim_ids", "pauses", "failures", "not_found", "unknown", "states", "progress")


@dataclass
class JobPoll:
    """A row of `job_polls`: when an accepted job is due, and who has it."""

    due_at: float
    deadline_at: float
    leased_by: str | None = None
    polls: int = 0
    failures: int = 0
    not_found: int = 0
    has_logged_unknown: bool = False


@dataclass
class SimulatedJobs(FakeJobs):
    """Jobs with what was asked, and who ended them."""

    requested: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    ended: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    polls: dict[str, JobPoll] = field(default_factory=dict)
    progress: dict[str, int | None] = field(default_factory=dict)

    def begin(self, job: Mapping[str, Any], hold: Hold) -> None:
        super().begin(job, hold)
        self.requested[job["id"]] = job

    def end(self, ended: list[dict[str, Any]], unsettled: Any) -> None:
        were_open = {one["id"] for one in ended if self._is_open(one["id"])}
        super().end(ended, unsettled)
        for one in ended:
            if one["id"] in were_open and not self._is_open(one["id"]):
                self.ended[one["id"]] = one
                self.polls.pop(one["id"], None)

    def _is_open(self, job_id: str) -> bool:
        return job_id in self.rows and self.rows[job_id].state in OPEN


@dataclass
class SimulatedStore(FakeStore):
    """Everything that is durable."""

    jobs: SimulatedJobs = field(default_factory=SimulatedJobs)

    def __init__(self, clock: LoopClock) -> None:
        super().__init__(clock=clock, jobs=SimulatedJobs())  # type: ignore[arg-type]
        self.copies = CopyTable(self.jobs, self.jobs.ended, lambda: self._now)
        self.keys = KeyTables(
            lambda account: self.balances[account] - self.held[account], self.nodes.version
        )
        self.nodes.day_seconds = DAY_SECONDS
        self.budgets = BudgetTable(self.nodes)
        self._unleased_until: dict[str, float] = {}

    def open_tenant(self, account: str, balance: int, tenant: Tenant) -> None:
        """A new account, without keys."""
        self.balances[account] = self.held[account] = 0
        self._credit(account, balance, "topup")
        self.keys.tenants[account] = tenant

    async def execute(self, sql: str, params: Any = ()) -> int:
        if (rows := self.copies.run(sql, params)) is not None:
            return len(rows)
        if (changed := self.budgets.execute(sql, params)) is not None:
            return changed
        touched = self.keys.execute(sql, params)
        if touched is None:
            return await super().execute(sql, params)
        if sql == KEY_SQL["insert"]:
            self.spent_by_key.setdefault(params["id"], 0)
            self.held_by_key.setdefault(params["id"], 0)
        return touched

    @property
    def _now(self) -> float:
        return self.clock.monotonic()

    def unix_seconds(self) -> float:
        return self.clock.now()

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        self.claims.now = self._now
        of_keys = await self.keys.fetch_all(sql, params)
        if of_keys is not None:
            return of_keys
        if (of_copies := self.copies.run(sql, params)) is not None:
            return of_copies
        if sql == MATCHING_SQL["live"]:
            (account,) = params
            return [(self.nodes.version(account), self.nodes.live(account))]
        if sql == PROCESS_SQL["called_back_of"]:
            (account,) = params
            return [one for one in self.called_of_others("") if one[1] == account]
        if sql == CHANGES_SQL["alive"]:
            return [(name,) for name in self._alive(params[0])]
        if sql == NEIGHBOURS_SQL["others"]:
            mine, seconds = params
            return [(name,) for name in self._alive(seconds) if name != mine]
        if sql == NEIGHBOURS_SQL["send"]:
            for payload in params[0]:
                self.keys.push(NEIGHBOURS_CHANNEL, payload)
            return [("",)]
        for name in STATEMENTS:
            if sql == JOBS_SQL[name]:
                found: list[tuple[Any, ...]] = getattr(self, f"_{name}")(params)
                return found
        if sql == PROCESS_SQL["count_holds_of"]:
            (ids,) = params
            return [(sum(hold["process_id"] in ids for hold in self.holds.values()),)]
        if sql == PROCESS_SQL["orphans"]:
            (seconds,) = params
            held = (h for h in self.holds.values() if self._now - h["at"] > seconds)
            names = {h["process_id"]: None for h in held if h["process_id"] is not None}
            return [(name,) for name in names if name not in self.processes]
        if sql == JOBS_SQL["accept"]:
            return self._accepted(params, await super().fetch_all(sql, params))
        self.unleased = {name for name, at in self._unleased_until.items() if at > self._now}
        found = await super().fetch_all(sql, params)
        for hold in self.holds.values():
            hold.setdefault("at", self._now)
        return found

    def call_back(self, account: str) -> None:
        super().call_back(account)
        self._unleased_until[account] = self._now + UNLEASED_SECONDS

    def nodes_changed(self, account: str) -> None:
        self.keys.push(CHANGES_CHANNEL, f"account:{account}")

    def notify(self, account: str) -> None:
        self.keys.push(NEIGHBOURS_CHANNEL, f"give_back {LEDGER} {account}")

    def _alive(self, seconds: float) -> list[str]:
        beats = {name: row[-1] for name, row in self.processes.items()}
        return [name for name, at in beats.items() if self._now - at < seconds]

    def bury(self, process_id: str, beat_at: float | None) -> bool:
        if process_id not in self.processes:  # nothing of it is there but holds
            self.buried.add(process_id)
        return super().bury(process_id, beat_at)

    def _accepted(
        self, params: Sequence[Any], found: list[tuple[Any, ...]]
    ) -> list[tuple[Any, ...]]:
        job_id, *_, pause, _ = params
        if found[0][0] and job_id not in self.jobs.polls and job_id not in self.jobs.ended:
            deadline = self._now + self.jobs.requested[job_id]["deadline"]
            self.jobs.polls[job_id] = JobPoll(self._now + pause, deadline)
            self.keys.push(CHANGES_CHANNEL, f"job:{job_id}")
        return found

    def _claim(self, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        left = dict(zip(params["channels"], params["counts"], strict=True))
        due = sorted(  # by time alone: ids are new in each replay
            (
                (poll.due_at, job_id)
                for job_id, poll in self.jobs.polls.items()
                if poll.due_at <= self._now
            ),
            key=itemgetter(0),
        )
        claimed: list[tuple[Any, ...]] = []
        for due_at, job_id in due:
            upstream = self.jobs.rows[job_id].upstream
            assert upstream is not None
            if left.get(upstream[0], 0) <= 0 or len(claimed) == params["limit"]:
                continue
            left[upstream[0]] -= 1
            poll = self.jobs.polls[job_id]
            before, poll.leased_by = poll.leased_by, params["claim_id"]
            poll.due_at = self._now + params["seconds"]
            claimed.append(self._claimed(job_id, poll, before, self._now - due_at))
        return claimed

    def _claimed(
        self, job_id: str, poll: JobPoll, before: str | None, lag: float
    ) -> tuple[Any, ...]:
        row, requested = self.jobs.rows[job_id], self.jobs.requested[job_id]
        assert row.upstream is not None
        channel, upstream_id = row.upstream
        progress = self.jobs.progress.get(job_id)
        what = (
            job_id,
            requested["kind"],
            row.state,
            requested["account_id"],
            requested["model"],
            channel,
        )
        watch = (poll.polls, poll.failures, poll.not_found, poll.has_logged_unknown)
        is_overdue = poll.deadline_at <= self._now
        return (*what, "videos", upstream_id, progress, *watch, before, lag, is_overdue)

    def _gone_channels(self, params: Any) -> list[tuple[Any, ...]]:
        """The configuration has every channel, always."""
        assert params
        return []

    def _book(self, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        for job_id, claim_id, pause, failures, not_found, unknown, state, progress in zip(
            *(params[name] for name in BOOKED), strict=True
        ):
            poll = self.jobs.polls.get(job_id)
            if poll is None or poll.leased_by != claim_id:
                continue
            poll.leased_by, poll.polls = None, poll.polls + 1
            poll.failures, poll.not_found, poll.has_logged_unknown = failures, not_found, unknown
            poll.due_at = max(self._now, min(self._now + pause, poll.deadline_at))
            self.jobs.rows[job_id].state = state
            self.jobs.progress[job_id] = progress
        return []

    def _open(self, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        (job_id,) = params
        row = self.jobs.rows.get(job_id)
        hold = None if row is None else self.holds.get(row.call_id)
        if row is None or hold is None or hold["process_id"] is not None:
            return []
        requested = self.jobs.requested[job_id]
        billing = requested["billing"]
        price, request = ujson.dumps(billing["price"]), ujson.dumps(requested["request"])
        call = (
            requested["kind"],
            row.state,
            requested["account_id"],
            requested["key_id"],
            row.call_id.hex,
        )
        quantity = billing["quantity"]
        held = quantity if billing["held"] is None else billing["held"]
        what = (requested["protocol"], requested["model"], request, price, quantity, held)
        times = (requested["submitted_at"], requested["submitted_at"] + requested["deadline"])
        assert row.upstream is not None
        where = (row.upstream[0], "videos", requested["model"], row.upstream[1])
        end = (self.jobs.progress.get(job_id), None, None, None, None)
        submission: dict[str, Any] = {"attempts": [], "detail": {}}
        return [(job_id, *call, *what, *times, *where, *end, hold["amount"], submission, None)]

    def _ended(self, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        (job_id,) = params
        row = self.jobs.rows.get(job_id)
        if row is None:
            return []
        return [(self.jobs.ended.get(job_id, {}).get("ended_by"), row.state)]

    def _in_flight(self, params: Any) -> list[tuple[Any, ...]]:
        assert params == ()
        return [("video", len(self.jobs.polls))]

    def _quiet(self, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The configuration has every channel, always."""
        tick, _ = params
        polls = self.jobs.polls.values()
        earliest = min((poll.due_at for poll in polls), default=None)
        if any(poll.leased_by is not None for poll in polls):
            return [(0.0,)]
        if earliest is None:
            return [(None,)]
        seconds = earliest - self._now
        return [(seconds if seconds > tick else 0.0,)]

    def job_of(self, call_id: UUID) -> str | None:
        """The job that a call began."""
        found = [name for name, row in self.jobs.rows.items() if row.call_id == call_id]
        return found[0] if found else None
