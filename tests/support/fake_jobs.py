"""The in-memory twin of jobs as the ledger knows them: made with a hold, handed it, and ended."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

Hold = dict[str, Any]


@dataclass
class FakeJob:
    """One job; `upstream` is its channel and its id there, once it is accepted."""

    call_id: UUID
    account_id: str
    state: str = "submitting"
    upstream: tuple[str, str] | None = None


@dataclass
class FakeJobs:
    """Jobs by id."""

    rows: dict[str, FakeJob] = field(default_factory=dict)

    def begin(self, job: Mapping[str, Any], hold: Hold) -> None:
        """A hold was granted, and begins it."""
        assert job["id"] not in self.rows
        self.rows[job["id"]] = FakeJob(UUID(job["call_id"]), hold["account_id"])
        hold["job_id"] = job["id"]

    def accept(self, job_id: str | None, hold: Hold | None, upstream: tuple[str, str]) -> bool:
        """An upstream accepts it; whether it is accepted under this id."""
        job = self.rows.get(job_id or "")
        if hold is None or job is None or hold["process_id"] is None:
            return job is not None and job.upstream == upstream
        hold["process_id"] = None
        job.state, job.upstream = "queued", upstream
        return True

    def end(self, ended: list[dict[str, Any]], unsettled: Collection[str]) -> None:
        """Calls were settled, and their jobs end with them."""
        for one in ended:
            job = self.rows.get(one["id"])
            is_open = job is not None and job.state in ("submitting", "queued", "running")
            if job is not None and is_open and one["call_id"] not in unsettled:
                job.state = one["state"]

    def owns(self, hold: Hold) -> bool:
        """Whether a hold is that of a process, or of a job of the same call."""
        job = self.rows.get(hold["job_id"] or "")
        return hold["process_id"] is not None or job is not None

    def states(self) -> dict[str, str]:
        """The state of each."""
        return {job_id: job.state for job_id, job in self.rows.items()}
