"""The in-memory twin of the ledger's database function, statement for statement.

It takes the same parameters and gives the same answer as `ledger_batch`, so everything above it
runs in a test without PostgreSQL; the state machine in `tests/support/ledger_machine.py` runs the
same rules on both and so proves the fake.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import ujson

from actors.jobs.store import SQL as JOBS_SQL
from actors.process import SQL as PROCESS_SQL
from actors.store.errors import StatementRefused, StoreUnavailable
from actors.wallet import ledger, verify
from actors.wallet.batch import BURIED
from actors.wallet.quarantine import SQL as QUARANTINE_SQL
from tests.support.fake_claims import FakeClaims
from tests.support.fake_jobs import FakeJobs
from tests.support.fake_nodes import FakeNodes


def read_rows(text: str | None) -> list[list[str | None]]:
    """`{"(a,b)","(c,)"}` as lists of values, None where there is none."""
    if text is None or text == "{}":
        return []
    assert (text[0], text[-1]) == ("{", "}"), text
    rows = []
    for row in _split(text[1:-1]):
        assert row is not None
        assert (row[0], row[-1]) == ("(", ")"), row
        rows.append(list(_split(row[1:-1])))
    return rows


def _split(text: str) -> Iterator[str | None]:
    """What stands between commas, out of its quotes and escapes."""
    item, is_quoted, was_quoted = "", False, False
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            item += next(letters)
        elif letter == '"':
            is_quoted, was_quoted = not is_quoted, True
        elif letter == "," and not is_quoted:
            yield item if item or was_quoted else None
            item, was_quoted = "", False
        else:
            item += letter
    assert not is_quoted, text
    yield item if item or was_quoted else None


@dataclass
class FakeLedger:
    """Accounts, entries, holds and rows as plain Python; also a `Database` for wallets."""

    balances: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    spent_by_key: dict[str, int] = field(default_factory=dict)
    held_by_key: dict[str, int] = field(default_factory=dict)
    holds: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    entries: list[tuple[str, str | None, UUID | None, str, int, int]] = field(default_factory=list)
    rows: dict[UUID, dict[str, Any]] = field(default_factory=dict)
    claims: FakeClaims = field(default_factory=FakeClaims)
    # Calls that recovery has settled, and whether it wrote their row; what was corrected since.
    recovered: dict[UUID, bool] = field(default_factory=dict)
    corrections: dict[UUID, int] = field(default_factory=dict)  # what was booked
    buried: set[str] = field(default_factory=set)
    jobs: FakeJobs = field(default_factory=FakeJobs)
    leases: dict[tuple[str, str], int] = field(default_factory=dict)  # by process and account
    quarantine: dict[UUID, Any] = field(default_factory=dict)
    unleased: set[str] = field(default_factory=set)  # accounts that are not leased for a while
    # Leases that are called back, each with a number of its own as its time.
    called: dict[tuple[str, str], int] = field(default_factory=dict)
    calls_back: int = 0
    taken: set[tuple[str, str]] = field(default_factory=set)  # leases that were not returned
    numbers: dict[str, int] = field(default_factory=dict)  # of each process's last batch
    # What goes wrong next: before the statement, or after it has committed.
    lose_before: int = 0
    lose_after: int = 0
    # Answers kept under idempotency keys are more than the database takes.
    refuses_replies: bool = False
    gate: asyncio.Event | None = None
    batches: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = FakeNodes(self, self.unix_seconds)

    def unix_seconds(self) -> float:
        """The database's clock."""
        return time.time()

    def open_account(self, account_id: str, key_id: str, balance_nano_usd: int = 0) -> None:
        self.balances.setdefault(account_id, 0)
        self.held.setdefault(account_id, 0)
        self.spent_by_key.setdefault(key_id, 0)
        self.held_by_key.setdefault(key_id, 0)
        if balance_nano_usd:
            self._credit(account_id, balance_nano_usd, "topup")

    async def session(self) -> FakeLedger:
        if self.lose_before:
            self.lose_before -= 1
            raise StoreUnavailable("lost while connecting")
        return self

    async def close(self) -> None:
        return None

    async def execute(self, sql: str, params: Any = ()) -> int:
        assert sql == PROCESS_SQL["register"], sql
        return 1

    def may_hold(self, process_id: str) -> bool:
        """Whether a process may hold money: others have not declared it dead."""
        return process_id not in self.buried

    async def fetch_one(self, sql: str, params: Any = ()) -> tuple[Any, ...] | None:
        rows = await self.fetch_all(sql, params)
        return rows[0] if rows else None

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        if sql == ledger.SQL["apply"]:
            return await self._guarded(params)
        if sql == ledger.SQL["last_batch"]:
            return [(self.numbers.get(params[0], 0),)] if self.may_hold(params[0]) else []
        if sql == ledger.SQL["leases_of"]:
            process, nodes = params["process"], self.nodes
            return [
                (
                    *(a, self.leases.get((process, a), 0), (process, a) in self.called),
                    *(nodes.version(a), nodes.runs.get(a, 0) > 0),
                )
                for a in params["accounts"]
            ]
        if sql == ledger.SQL["node_leases_of"]:
            rows = self.nodes.leases_of(params["process"], params["accounts"])
            return [(ujson.dumps(rows),)]
        if sql == QUARANTINE_SQL["keep"]:
            self.quarantine.setdefault(UUID(params["call"]), params)
            return []
        if sql == ledger.SQL["take_over"]:
            return []  # its sessions end when they are closed
        if sql == ledger.SQL["book"]:
            return [(self._credit(params["account"], params["amount"], params["kind"]),)]
        if sql == ledger.SQL["balance"]:
            (account_id,) = params
            if account_id not in self.balances:
                return []
            return [(self.balances[account_id], self.held[account_id])]
        if sql == JOBS_SQL["accept"]:
            job_id, call, channel, *_, upstream_id, _, _, ended = params
            return [(self._accept(job_id, UUID(call), (channel, upstream_id), ended),)]
        assert sql == ledger.SQL["spending"], sql
        account_id, key_id = params
        return [
            (
                self.balances[account_id],
                self.held[account_id],
                self.spent_by_key[key_id],
                self.held_by_key[key_id],
            )
        ]

    async def _guarded(self, params: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self.gate is not None:
            await self.gate.wait()
        if self.lose_before:
            self.lose_before -= 1
            raise StoreUnavailable("lost before the statement")
        process, accounts, keys, settlements, details, holds, calls, rows, unusual = params[:9]
        number, admitted, written, changes, jobs, nodes, of_settled, of_held, moves = params[9:]
        of_nodes = ujson.loads(nodes)
        if self.refuses_replies and unusual is not None and '"body"' in unusual:
            raise StatementRefused("54000", "too large")
        ended, wanted = _settlements(settlements, details), _holds(holds, calls)
        is_buried = not self.may_hold(process)
        if is_buried and number is not None:
            response: dict[str, Any] = {"buried": True}
        else:
            holds_admitted = _admitted(admitted, len(ended))
            settled_nodes = _nodes_of_calls(of_settled, len(ended))
            for one, hold, budgets in zip(ended, holds_admitted, settled_nodes, strict=True):
                one["admitted"], one["budgets"] = hold, budgets
            asked = of_nodes.get("asked") or [None] * (len(wanted) - written)
            of_holds = [*((0, one) for one in _nodes_of_calls(of_held, written)), *asked]
            for one, of_hold in zip(wanted, of_holds, strict=True):
                one["version"], one["nodes"] = of_hold or (0, None)
            needed = {str(name): int(amount or 0) for name, amount in read_rows(accounts)}
            is_reported = changes is not None or not self._all_fit(needed, read_rows(keys))
            response = self.apply(
                ended,
                [] if is_buried else wanted,
                ujson.loads(rows) if rows is not None else [],
                ujson.loads(unusual) if unusual is not None else None,
                process,
                written=written,
                needed=needed,
                moves=[[int(value or 0) for value in row] for row in read_rows(moves)],
            )
            if number is not None:
                self.numbers[process] = number
            for account, change, least in read_rows(changes):
                assert account is not None
                self._lease(process, account, int(change or 0), int(least or 0))
            if jobs is not None:
                self.jobs.end(ujson.loads(jobs), response["unsettled"])
            if is_buried:
                response["refused"] = [[hold["seq"], BURIED] for hold in wanted]
            response["accounts"] = self._touched(needed, ended, wanted)
            known = [account for account in needed if account in self.balances]
            response["nodes"] = self.nodes.lease(process, of_nodes.get("leases", ()))
            response |= {"leases": [], "called": [], "versions": [], "drawn": []}
            if is_reported or response.pop("has_late"):
                response["leases"] = [[a, self.leases.get((process, a), 0)] for a in known]
                response["called"] = [a for a in known if (process, a) in self.called]
                versions = [[a, self.nodes.version(a), self.nodes.runs.get(a, 0)] for a in known]
                response["versions"] = [one for one in versions if any(one[1:])]
            if response.pop("is_drawn"):
                response["drawn"] = self.nodes.leases_of(process, known)
            response["others"] = []  # of values of rows, of which it stores all
            _check_keys(keys, wanted)
            self.batches.append(len(ended) - len(response["unsettled"]))
        if self.lose_after:
            self.lose_after -= 1
            raise StoreUnavailable("lost after the statement")
        return [(response,)]

    def apply(
        self,
        settlements: list[dict[str, Any]],
        holds: list[dict[str, Any]],
        rows: list[dict[str, Any]],
        unusual: dict[str, Any] | None,
        process_id: str,
        *,
        written: int,
        needed: Mapping[str, int],
        moves: Sequence[Sequence[int]],
    ) -> dict[str, Any]:
        unusual = unusual or {}
        recovered, late = unusual.get("recovered", ()), unusual.get("late", {})
        self._draw(process_id, settlements, holds[:written], needed, late)
        exceeding, is_drawn = 0, bool(late and moves)
        if moves and not late:  # what was admitted takes its room before others ask for it
            is_covered, exceeding = self.nodes.book(moves)
            is_drawn = not is_covered
        for settlement in settlements:
            if settlement["admitted"] is not None:
                self._open_admitted(settlement, process_id, late, is_drawn=is_drawn)
        for hold in holds[:written]:
            self._admit(hold, process_id, late, is_drawn=is_drawn)
        charges: list[tuple[int, Any]] = []
        settled = [s["call_id"] for s in settlements if self._settle(s, recovered, charges)]
        exceeding += self.nodes.settle(charges)
        self._look_uncovered(needed)
        corrected = [
            s["call_id"]
            for s in settlements
            if s["call_id"] not in (*settled, *recovered) and self._correct(s)
        ]
        given_up = [
            s["call_id"]
            for s in settlements
            if s["status"] is None and UUID(s["call_id"]) in self.recovered
        ]
        for end in unusual.get("ended", ()):
            if end["call_id"] in (*settled, *corrected, *given_up):
                self.claims.end(end)
        wanted = {want["seq"]: want for want in unusual.get("wanted", ())}
        begun = {job["seq"]: job for job in unusual.get("jobs", ())}
        refused: list[list[Any]] = []
        taken: list[list[Any]] = []
        warned: list[list[Any]] = []
        ordered = sorted(holds, key=lambda h: (h["account_id"], h["seq"]))
        for hold in ordered:
            call_id = UUID(hold["call_id"])
            if hold["seq"] < written:
                is_known = str(call_id) in late and self._knows(call_id)
                if call_id not in self.holds and not is_known:
                    self._make_hold({**hold, "process_id": process_id, "job_id": None})
                continue
            want = wanted.get(hold["seq"])
            if want is not None and hold["account_id"] in self.balances:
                standing = self._standing(want)
                if standing is not None:
                    taken.append([hold["seq"], standing])
                    continue
            is_repeat = UUID(hold["call_id"]) in self.holds
            found = self._hold({**hold, "process_id": process_id, "job_id": None})
            if "reason" in found:
                budget = [found["budget"]] if "budget" in found else []
                refused.append([hold["seq"], found["reason"], *budget])
                continue
            if found.get("warned"):
                warned.append([hold["seq"], found["warned"]])
            if want is not None:
                self.claims.claim(want)
            if (job := begun.get(hold["seq"])) is not None and not is_repeat:
                self.jobs.begin(job, self.holds[UUID(hold["call_id"])])
        self._look_uncovered(needed)
        for row in rows:
            self._record(row)
        return {
            "unsettled": [s["call_id"] for s in settlements if s["call_id"] not in settled],
            "corrected": corrected,
            "refused": refused,
            "taken": taken,
            "warned": warned,
            "exceeding": exceeding,
            "has_late": bool(late),
            "is_drawn": is_drawn,
        }

    def _all_fit(self, needed: Mapping[str, int], keys: list[list[str | None]]) -> bool:
        known = [account for account in needed if account in self.balances]
        return (
            bool(known)
            and all(needed[account] < self.available(account) for account in known)
            and all(
                int(most or 0) < int(cap or 0) - self.spent_by_key[key] - self.held_by_key[key]
                for key, most, cap in keys
                if key is not None
            )
        )

    def leased(self, account: str) -> int:
        return sum(amount for (_, name), amount in self.leases.items() if name == account)

    def available(self, account: str) -> int:
        return self.balances[account] - self.held[account] - self.leased(account)

    def end_leases(self, process: str) -> None:
        """The row of a process is deleted."""
        for place in [place for place in self.leases if place[0] == process]:
            self._end_lease(place)

    def _end_lease(self, place: tuple[str, str]) -> None:
        self.leases.pop(place, None)
        self.called.pop(place, None)
        self.nodes.end_leases(*place)

    def called_of(self, process: str) -> list[str]:
        """The accounts of which a process has a lease that is called back."""
        return [account for name, account in self.called if name == process]

    def called_of_others(self, process: str) -> list[tuple[str, str, int]]:
        """The leases of others that are called back, and since when."""
        found = [(*place, at) for place, at in self.called.items() if place[0] != process]
        return [(name, account, at) for name, account, at in found if self.leases[name, account]]

    def take_lease(self, process: str, account: str, called_at: int) -> int:
        if self.called.get((process, account)) != called_at:
            return 0
        self.taken.add((process, account))
        taken, self.leases[process, account] = self.leases[process, account], 0
        self.nodes.end_leases(process, account)
        return taken

    def notify(self, account: str) -> None:
        """The leases of an account are called back; a subclass tells processes of it."""

    def nodes_changed(self, account: str) -> None:
        """The nodes of an account have another version; a subclass tells processes of it."""

    def call_back(self, account: str) -> None:
        """Call back all leases of an account."""
        new = [p for p in self.leases if p[1] == account and p not in self.called]
        self.calls_back += 1
        self.called.update(dict.fromkeys(new, self.calls_back))
        self.unleased.add(account)
        if new:
            self.notify(account)

    def is_leased(self, account: str) -> bool:
        """Whether any process has a lease of it, be it of nothing."""
        return any(name == account for _, name in self.leases)

    def may_lease(self, process: str, account: str) -> bool:
        """Whether a process may lease more of the account's nodes."""
        place = process, account
        return place in self.leases and place not in self.called and account not in self.unleased

    def _look_uncovered(self, accounts: Iterable[str]) -> None:
        """The trigger of accounts, once for a statement that moved money of these."""
        for account in accounts:
            if account in self.balances and self.leased(account) > 0 > self.available(account):
                self.call_back(account)

    def _lease(self, process: str, account: str, change: int, least: int) -> None:
        place = process, account
        if change > 0:
            is_barred = account in self.unleased or place in self.called
            free = 0 if is_barred else max(0, self.available(account)) // 4
            change = min(change, free)
            if change >= least and change > 0:
                self.leases[place] = self.leases.get(place, 0) + change
        elif place in self.leases:
            self.leases[place] = max(0, self.leases[place] + change)
            if not self.leases[place]:
                self._end_lease(place)

    def _draw(
        self,
        process: str,
        settlements: list[dict[str, Any]],
        written: list[dict[str, Any]],
        needed: Mapping[str, int],
        late: Mapping[str, str],
    ) -> None:
        """What is admitted comes out of the lease where the balance does not cover both."""
        taken = [
            (s["admitted"]["account_id"], min(s["cost"], s["admitted"]["amount"]))
            for s in settlements
            if s["admitted"] is not None and str(UUID(s["call_id"])) not in late
        ]
        taken += [
            (hold["account_id"], hold["amount"])
            for hold in written
            if str(UUID(hold["call_id"])) not in late
        ]
        for account in dict.fromkeys(account for account, _ in taken):
            amount = sum(amount for name, amount in taken if name == account)
            if needed[account] >= self.available(account) and (process, account) in self.leases:
                place = process, account
                self.leases[place] -= min(self.leases[place], amount)

    def _knows(self, call_id: UUID) -> bool:
        return call_id in self.rows or call_id in self.recovered

    def _open_admitted(
        self,
        settlement: dict[str, Any],
        process: str,
        late: Mapping[str, str],
        *,
        is_drawn: bool,
    ) -> None:
        """The hold of a call that ended before it was written."""
        call_id = UUID(settlement["call_id"])
        if str(call_id) in late and (self._knows(call_id) or call_id in self.holds):
            return
        whose = late.get(str(call_id), process)
        hold = {**settlement["admitted"], "call_id": settlement["call_id"], "cap": None}
        hold |= {"budgets": settlement["budgets"], "is_on_nodes": is_drawn}
        if is_drawn:
            hold["budgets"] = self.nodes.draw(whose, settlement["cost"], settlement["budgets"])
        self._make_hold({**hold, "process_id": whose, "job_id": None})

    def _admit(
        self, hold: dict[str, Any], process: str, late: Mapping[str, str], *, is_drawn: bool
    ) -> None:
        """What a hold that was granted in memory holds on its nodes."""
        call_id = UUID(hold["call_id"])
        hold["budgets"] = hold["nodes"] or []
        is_written = call_id in self.holds or (str(call_id) in late and self._knows(call_id))
        if is_drawn and not is_written:
            whose = late.get(str(call_id), process)
            hold["budgets"] = self.nodes.draw(whose, None, hold["budgets"])

    def _touched(
        self, needed: Mapping[str, int], ended: list[dict[str, Any]], wanted: list[dict[str, Any]]
    ) -> list[list[Any]]:
        """The accounts as they stand; what the batch said it needs must be all it may take."""
        costs = sum(settlement["cost"] for settlement in ended)
        for name in {hold["account_id"] for hold in wanted}:
            held = sum(hold["amount"] for hold in wanted if hold["account_id"] == name)
            assert held <= needed[name] <= held + costs
        assert sum(needed.values()) == costs + sum(hold["amount"] for hold in wanted)
        return [
            [a, self.balances[a], self.held[a], self.leased(a)]
            for a in needed
            if a in self.balances
        ]

    def _standing(self, want: Mapping[str, Any]) -> str | None:
        if UUID(want["call_id"]) in self.holds:  # sent again: it was granted
            return None
        return self.claims.standing(want, open_calls=set(self.holds))

    def _settle(
        self,
        settlement: dict[str, Any],
        recovered: Collection[str],
        charges: list[tuple[int, Any]],
    ) -> bool:
        call_id = UUID(settlement["call_id"])
        hold = self.holds.get(call_id)
        if hold is None:
            return False
        if settlement["call_id"] in recovered and hold["process_id"] is None:  # its job's
            return False
        del self.holds[call_id]
        if settlement["call_id"] in recovered:
            self.recovered[call_id] = call_id not in self.rows
            if call_id in self.rows:  # its client was refused: what it holds goes back
                settlement = {**settlement, "cost": 0, "status": None, "kind": "refund"}
        account, key, amount = hold["account_id"], hold["key_id"], hold["amount"]
        cost = settlement["cost"]
        self.balances[account] -= cost
        self.held[account] -= amount
        self.spent_by_key[key] += cost
        self.held_by_key[key] -= amount
        self.entries.append((account, key, call_id, settlement["kind"], -cost, -amount))
        budgets = hold.get("budgets", [])
        if "is_on_nodes" not in hold:  # else its process has left out those that do not pay
            model, served = settlement["model"], settlement["served"]
            charges.append((0, self.nodes.served(budgets, model, served, pays=False)))
            budgets = self.nodes.served(budgets, model, served, pays=True)
        if budgets and hold.get("is_on_nodes", True):  # else they were moved with the batch
            charges.append((cost, budgets))
        if settlement["status"] is not None:
            account_and_key = {"account_id": account, "key_id": key, "budgets": budgets}
            self.rows[call_id] = {**settlement, **account_and_key}
        return True

    def _correct(self, true: Mapping[str, Any]) -> bool:
        """A call that recovery settled has its true settlement, or the row of its refusal."""
        call_id = UUID(true["call_id"])
        if (
            true["status"] is None
            or call_id not in self.recovered
            or call_id in self.corrections
            or call_id not in self.rows
        ):
            return False
        row = self.rows[call_id]
        account, key, difference = row["account_id"], row["key_id"], row["cost"] - true["cost"]
        self.corrections[call_id] = difference
        self.balances[account] += difference
        self.spent_by_key[key] -= difference
        self.entries.append((account, key, call_id, "correction", difference, 0))
        self._look_uncovered([account])
        budgets = row.get("budgets", [])
        if not row["cost"]:
            budgets = self.nodes.served(budgets, row["model"], true.get("served"), pays=True)
        self.nodes.correct(row["cost"], true["cost"], budgets)
        place = {name: row[name] for name in ("account_id", "key_id", "created_at")}
        self.rows[call_id] = {**true, **place, "budgets": budgets}
        return True

    def _record(self, row: dict[str, Any]) -> None:
        call_id = UUID(row["request_id"])
        row = {**row, "call_id": row["request_id"], "cost": 0}
        if self.recovered.get(call_id):
            self._correct(row)
        elif call_id not in self.recovered:
            self.rows.setdefault(call_id, row)

    def _hold(self, hold: dict[str, Any]) -> dict[str, Any]:
        """Hold what is asked for; return why not as `reason`, or the nodes that warn."""
        call_id, account, key = (UUID(hold["call_id"]), hold["account_id"], hold["key_id"])
        if call_id in self.holds:
            return {}
        if account not in self.balances:
            return {"reason": "unknown_account"}
        available = self.available(account)
        if hold["amount"] > 0 and (available <= 0 or hold["amount"] > available):
            if hold["amount"] > available + self.leased(account):
                return {"reason": "insufficient_funds"}
            self.call_back(account)
            return {"reason": "leased"}
        if hold["cap"] is not None:
            left = hold["cap"] - self.spent_by_key[key] - self.held_by_key[key]
            if left <= 0 or hold["amount"] > left:
                return {"reason": "spend_cap"}
        if hold["version"] != self.nodes.version(account):
            return {"reason": "stale_budgets"}
        found: dict[str, Any] = {}
        if hold["nodes"] is not None:
            found = self.nodes.hold(account, hold["nodes"])
            if found.get("reason") == "leased":
                self.call_back(account)
        if "reason" not in found:
            self._make_hold({**hold, "budgets": found.get("held", [])})
        return found

    def _make_hold(self, hold: dict[str, Any]) -> None:
        call_id, account, key = UUID(hold["call_id"]), hold["account_id"], hold["key_id"]
        self.holds[call_id] = hold
        self.held[account] += hold["amount"]
        self.held_by_key[key] += hold["amount"]
        self.entries.append((account, key, call_id, "hold", 0, hold["amount"]))

    def _accept(
        self, job_id: str | None, call_id: UUID, upstream: tuple[str, str], ended: str | None
    ) -> bool:
        hold = self.holds.get(call_id)
        was_handed_over = hold is None or hold["process_id"] is None
        is_accepted = self.jobs.accept(job_id, hold, upstream)
        if is_accepted and not was_handed_over:
            for end in ujson.loads(ended) if ended is not None else ():
                self.claims.end(end)
        return is_accepted

    def open_job(self, job_id: str) -> tuple[UUID, int] | None:
        """Call and hold of an accepted job that has not ended."""
        call_id = self.jobs.rows[job_id].call_id
        hold = self.holds.get(call_id)
        if hold is None or hold["process_id"] is not None:
            return None
        return call_id, hold["amount"]

    def _credit(self, account_id: str, amount: int, kind: str) -> int:
        self.balances[account_id] += amount
        self.entries.append((account_id, None, None, kind, amount, 0))
        return self.balances[account_id]

    def _calls_on_nodes(self) -> Iterator[tuple[int, int, Any]]:
        for call_id, row in self.rows.items():
            before = row["cost"] + self.corrections.get(call_id, 0)
            yield row["cost"], min(row["cost"], before), row.get("budgets", [])
        for hold in self.holds.values():
            yield -1, 0, hold.get("budgets", [])

    def faults(self) -> list[str]:
        """The invariants of `gw ledger verify`, by the same names, on this memory."""
        found = []
        paid: Counter[Any] = Counter()  # by accounts, keys and calls
        held_of: Counter[str] = Counter()
        for account, key, call_id, _, amount, held_amount in self.entries:
            paid[account] += amount
            paid[key] += amount
            paid[call_id] += amount
            held_of[account] += held_amount
        open_holds: Counter[str] = Counter()
        for hold in self.holds.values():
            open_holds[hold["account_id"]] += hold["amount"]
        for account in self.balances:
            if (self.balances[account], self.held[account]) != (paid[account], held_of[account]):
                found.append("balance_is_sum_of_entries")
            if self.held[account] != open_holds[account]:
                found.append("held_is_sum_of_holds")
        for spender, spent in self.spent_by_key.items():
            if spent != -paid[spender]:
                found.append("key_spend_is_sum_of_entries")
        resolutions = [e[2] for e in self.entries if e[3] in ("settle", "refund")]
        resolved = set(resolutions)
        if len(resolutions) != len(resolved):
            found.append("call_is_settled_once")
        corrected = [e[2] for e in self.entries if e[3] == "correction"]
        if len(corrected) != len(set(corrected)) or not set(corrected) <= resolved:
            found.append("call_is_settled_once")
        booked = {e[2]: e[4] for e in self.entries if e[3] == "correction"}
        if booked != self.corrections:
            found.append("correction_has_its_record")
        for logged, call in self.rows.items():
            if call["cost"] != -paid[logged]:
                found.append("settlement_has_its_row")
        for call_id in {e[2] for e in self.entries if e[3] == "hold"}:
            if (call_id in self.holds) == (call_id in resolved):
                found.append("hold_is_open_or_resolved")
        held = {(e[0], e[2]) for e in self.entries if e[3] == "hold"}
        settled = {e[2] for e in self.entries if e[3] in ("settle", "correction")}
        begun = {job.call_id for job in self.jobs.rows.values()}
        for (account, _), row in self.claims.rows.items():
            if (account, row.call_id) not in held:
                found.append("key_was_claimed_by_a_call")
            if row.state != "executing" and row.call_id not in {*settled, *begun}:
                found.append("kept_answer_is_settled")
        if not all(map(self.jobs.owns, self.holds.values())):
            found.append("hold_has_a_live_call")
        found += self.nodes.faults(self._calls_on_nodes())
        assert set(found) <= set(verify.INVARIANTS)
        return found


_SETTLEMENT = (
    "call_id",
    "cost",
    "created_at",
    "submitted_at",
    "protocol",
    "model",
    "status",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "latency_ms",
    "upstream_cost_nano_usd",
    "channel_id",
    "attribution",
    "rare",
)
_RARE = (
    "error_code",
    "error_message",
    "unit_count",
    "unit_type",
    "task_id",
    "result_urls",
    "result_expires_at",
    "attempts",
    "served",
)
_HOLD = ("seq", "call_id", "account_id", "key_id", "amount", "cap")
_NUMBERS = frozenset(
    (
        *("cost", "upstream_cost_nano_usd", "input_tokens", "output_tokens", "cached_tokens"),
        *("latency_ms", "seq", "amount"),
    )
)


def _settlements(rows: str | None, details: str | None) -> list[dict[str, Any]]:
    """Settlements by the names of the call log's columns."""
    found = []
    beside = [] if details is None else list(map(ujson.loads, details.split("\x1e")))
    for row, detail in _aligned(rows, beside, _SETTLEMENT):
        del row["attribution"]
        rare = ujson.loads(row.pop("rare") or "{}")
        row.update(dict.fromkeys(_RARE), **rare, detail=detail)
        delivered = row["cost"] != 0 or row["status"] == "success"
        row["kind"] = "settle" if delivered else "refund"
        found.append(row)
    return found


def _holds(rows: str | None, calls: str | None) -> list[dict[str, Any]]:
    found = []
    for row, call in _aligned(rows, ujson.loads(calls or "[]"), _HOLD):
        cap = row["cap"]
        row.update(cap=None if cap is None else int(cap), call=call)
        found.append(row)
    return found


def _admitted(text: str | None, count: int) -> list[dict[str, Any] | None]:
    """The holds that come with settlements, None for those that have theirs in the ledger."""
    if text is None:
        return [None] * count
    rows = iter(read_rows(text.replace("NULL", '"(,,)"')))
    return [
        None
        if account is None
        else {"account_id": account, "key_id": key, "amount": int(amount or 0)}
        for account, key, amount in rows
    ]


def _nodes_of_calls(text: str | None, count: int) -> list[list[list[int]]]:
    """The nodes of each of so many calls: number of the sum and what is held, if any."""
    if text is None:
        return [[] for _ in range(count)]
    found = []
    for item in _split(text[1:-1]):
        assert item is not None
        values = [] if item == "NULL" else list(map(int, item[1:-1].split(",")))
        found.append([[*pair] for pair in zip(values[::2], values[1::2], strict=True)])
    return found


def _aligned(
    rows: str | None, beside: Sequence[Any], names: Sequence[str]
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Rows by the names of their columns, each with the item beside it."""
    for values, item in zip(read_rows(rows), beside, strict=True):
        row: dict[str, Any] = dict(zip(names, values, strict=True))
        for name in _NUMBERS & row.keys():
            row[name] = row[name] and int(row[name])
        yield row, item


def _check_keys(keys: str | None, holds: list[dict[str, Any]]) -> None:
    """Keys with a cap are named with all that is to be held for them."""
    result = {name: int(needed or 0) for name, needed, _ in read_rows(keys)}
    capped = {hold["key_id"] for hold in holds if hold["cap"] is not None}
    assert result.keys() == capped
    for key in capped:
        assert result[key] >= sum(hold["amount"] for hold in holds if hold["key_id"] == key)
