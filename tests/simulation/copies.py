"""The table of media copies in the simulation, by the statements of `actors/media_store`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import ujson

from actors.media_store.store import SQL
from actors.media_store.task_scanner import SQL as SCANNER_SQL
from tests.support.fake_jobs import FakeJobs

UNDER_WAY = ("waiting", "dropping")


@dataclass
class CopyRow:
    """A row of `media_copies`."""

    id: str
    job_id: str
    state: str
    channel_id: str
    wire: str
    upstream_id: str
    url: str | None
    content_type: str
    created_at: float
    due_at: float
    leased_by: str | None = None
    attempts: int = 0
    done: int = 0
    size: int | None = None
    validator: str | None = None
    kept_at: float | None = None


@dataclass
class ScannerLock:
    """Who looks for what was made: until the end of its transaction, or of its process."""

    holder: object | None = None
    is_gone: Callable[[], bool] = bool

    def take(self, holder: object, is_gone: Callable[[], bool]) -> bool:
        """Take it, if nobody has it."""
        if self.holder is not None and not self.is_gone():
            return False
        self.holder, self.is_gone = holder, is_gone
        return True

    def release(self, holder: object) -> None:
        """Give it back, if it is the holder's."""
        if self.holder is holder:
            self.holder = None


class CopyTable:
    """The rows by id. `on_kept` is told of each copy that is there from now on."""

    def __init__(
        self, jobs: FakeJobs, ended: Mapping[str, Mapping[str, Any]], now: Callable[[], float]
    ) -> None:
        self._jobs = jobs
        self._ended = ended
        self._now = now
        self.rows: dict[str, CopyRow] = {}
        self.scanner = ScannerLock()
        self.on_kept: Callable[[CopyRow], None] = lambda _: None

    def run(self, sql: str, params: Any) -> list[tuple[Any, ...]] | None:
        """Run a statement, if it is one of these."""
        for name in ("found", "claim", "hold_on", "kept", "later", "given_up", "dropped"):
            if sql == SQL[name]:
                return list(getattr(self, f"_{name}")(params))
        if sql == SCANNER_SQL["made"]:
            return self._made(params["limit"])
        if sql in (SQL["expire"], SCANNER_SQL["begin"], SCANNER_SQL["seen"]):
            return []  # nothing is old; the look back covers all the time there is
        return None

    def succeeded(self) -> list[str]:
        """The jobs that have made something."""
        return [name for name, row in self._jobs.rows.items() if row.state == "succeeded"]

    def left(self) -> list[str]:
        """What is still to be done."""
        known = {row.job_id for row in self.rows.values()}
        left = [f"no copy of {job_id}" for job_id in self.succeeded() if job_id not in known]
        return left + [f"copy {r.id} {r.state}" for r in self.rows.values() if r.state in UNDER_WAY]

    def _made(self, limit: int) -> list[tuple[Any, ...]]:
        known = {row.job_id for row in self.rows.values()}
        found = []
        for job_id in self.succeeded():
            upstream, result = self._jobs.rows[job_id].upstream, self._ended[job_id]["result"]
            assert upstream is not None
            if job_id not in known:
                where = (job_id, "video", *upstream, "videos")
                found.append((*where, ujson.dumps(result), self._now()))
        return found[:limit]

    def _found(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        for file in ujson.loads(params["files"]):
            if file["id"] not in self.rows:
                values = {name: file[name] for name in file if name != "position"}
                now = self._now()
                self.rows[file["id"]] = CopyRow(**values, created_at=now, due_at=now)
                yield (file["id"],)

    def _claim(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        now = self._now()
        due = [r for r in self.rows.values() if r.state == params["state"] and r.due_at <= now]
        due = [r for r in due if self._account(r) not in params["without"]]
        for row in sorted(due, key=lambda row: row.due_at)[: params["limit"]]:
            row.leased_by, row.due_at = params["claim_id"], now + params["seconds"]
            whose = (row.id, row.job_id, self._account(row))
            where = (*whose, row.channel_id, row.wire, row.upstream_id, row.url)
            progress = (row.attempts, row.done, row.size, row.validator, None, ())
            yield (*where, row.content_type, *progress, now - row.created_at)

    def _account(self, row: CopyRow) -> str:
        return self._jobs.rows[row.job_id].account_id

    def _claimed(self, params: Mapping[str, Any], state: str = "waiting") -> CopyRow | None:
        row = self.rows[params["id"]]
        is_claimed = row.leased_by == params["claim_id"] and row.state == state
        return row if is_claimed else None

    def _hold_on(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if (row := self._claimed(params)) is not None:
            row.due_at = self._now() + params["seconds"]
            if params["done"] is not None:
                row.attempts = 0 if params["done"] > row.done else row.attempts
                row.done, row.validator = params["done"], params["validator"]
            yield (row.id,)

    def _kept(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if (row := self._claimed(params)) is not None:
            row.state, row.kept_at, row.leased_by = "kept", self._now(), None
            row.size = row.done = params["size"]
            self.on_kept(row)
            yield (row.id,)

    def _later(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if (row := self._claimed(params)) is not None:
            row.leased_by, row.due_at = None, self._now() + params["pause"]
            row.attempts += params["attempts"]
            yield (row.id,)

    def _given_up(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if (row := self._claimed(params)) is not None:
            row.state, row.leased_by, row.due_at = "dropping", None, self._now()
            yield (row.id,)

    def _dropped(self, params: Mapping[str, Any]) -> Iterable[tuple[Any, ...]]:
        if (row := self._claimed(params, "dropping")) is not None:
            row.state, row.leased_by = "failed", None
            row.size, row.done = None, 0
            yield (row.id,)
