"""What must never happen in the simulation, and what must have happened once the world is well.

Safety is looked for at each statement that takes effect and at each attempt; the rest when all is
over. A breach is text, and the first one ends the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from tests.simulation.clients import Call, Credential
from tests.simulation.copies import CopyRow
from tests.simulation.files import Folder, content_of
from tests.simulation.process import GatewayProcess
from tests.simulation.store import OPEN, SimulatedStore
from tests.simulation.upstreams import FILM_SECOND, Upstreams

Entry = tuple[str, str | None, UUID | None, str, int, int]


class Breach(Exception):
    """A rule was broken."""


def safety(store: SimulatedStore, processes: Iterable[GatewayProcess]) -> list[str]:
    """What is wrong at this moment."""
    found = [f"ledger: {fault}" for fault in store.faults()]
    found += [
        f"{account} holds {held}"
        for account, held in store.held.items()
        if held < 0 or store.balances[account] < -_owed(store, account)
    ]
    for process in processes:
        for channel in process.channels.values():
            if not 0 <= channel.in_use <= channel.spec.max_concurrency:
                found.append(f"{process.name}: {channel!r} has {channel.in_use} in use")
    return found


def _owed(store: SimulatedStore, account: str) -> int:
    """How far an account may be below zero: by what its calls cost above what they held."""
    return _above(store, lambda entry: entry[0] == account)


def _above(store: SimulatedStore, is_of: Callable[[Entry], bool]) -> int:
    """What calls cost above what they held, in all."""
    held = {entry[2]: entry[5] for entry in store.entries if entry[3] == "hold"}
    above = 0
    for entry in store.entries:
        if entry[3] in ("settle", "correction") and is_of(entry):
            above += max(0, -entry[4] - held.get(entry[2], 0))
    return above


def over_cap(store: SimulatedStore, credentials: Iterable[Credential]) -> list[str]:
    """Keys that have spent more than their cap, but for what calls cost above their holds."""
    found = []
    for one in credentials:
        if one.cap_nano_usd is None or one.key_id not in store.spent_by_key:
            continue
        used = store.spent_by_key[one.key_id] + store.held_by_key[one.key_id]
        if used > one.cap_nano_usd:
            name = one.key_id
            above = _above(store, lambda entry, name=name: entry[1] == name)  # type: ignore[misc]
            if used > one.cap_nano_usd + above:
                found.append(f"{name} has used {used} of {one.cap_nano_usd}")
    return found


def leftovers(store: SimulatedStore, processes: Iterable[GatewayProcess]) -> list[str]:
    """What is still under way: nothing, some time after the last call."""
    left = [f"hold of {call_id} by {h['process_id']}" for call_id, h in store.holds.items()]
    open_jobs = {name: row.state for name, row in store.jobs.rows.items() if row.state in OPEN}
    left += [f"job {name} is {state}" for name, state in open_jobs.items()]
    left += store.copies.left()
    for process in processes:
        left += process.leftovers()
    return left


def outcomes(store: SimulatedStore, upstreams: Upstreams, calls: Sequence[Call]) -> list[str]:
    """What the books say of each call, beside what its client and its upstream saw."""
    found: list[str] = []
    for call in calls:
        held = any(e[2] == call.call_id and e[3] == "hold" for e in store.entries)
        row = store.rows.get(call.call_id)
        if held and row is None:
            refunds = [e for e in store.entries if e[2] == call.call_id and e[3] == "refund"]
            if len(refunds) != 1:
                found.append(f"call {call.number} held money and has no row")
        if row is not None:
            found += [f"call {call.number} {one}" for one in _of_row(call, row, upstreams)]
        if call.is_whole and row is None:
            found.append(f"call {call.number} was answered and has no row")
    for key, count in upstreams.begun.items():
        if count > 1:
            found.append(f"{key} was begun {count} times")
    return found + _twice(store, calls)


def is_whole(folder: Folder, row: CopyRow) -> bool:
    """Whether what was put into the folder is the upstream's file."""
    return row.url is not None and folder.files.get(row.id) == content_of(row.url)


def copied(store: SimulatedStore, folder: Folder) -> list[str]:
    """Each film that was made has been copied, once, and nothing else is in the folder."""
    rows = store.copies.rows.values()
    found = [f"{row.id} is {row.state}, not its file" for row in rows if not is_whole(folder, row)]
    jobs = Counter(row.job_id for row in rows)
    found += [f"{job_id} is copied {jobs[job_id]} times" for job_id in jobs if jobs[job_id] > 1]
    found += [f"a copy of {job_id}" for job_id in jobs.keys() - set(store.copies.succeeded())]
    found += [f"part {name} was left" for name in folder.parts]
    return found + [f"file {name}" for name in folder.files.keys() - store.copies.rows.keys()]


def _of_row(call: Call, row: dict[str, object], upstreams: Upstreams) -> list[str]:
    status, cost = row["status"], int(str(row.get("cost") or 0))
    if call.kind == "film":
        film = upstreams.films.get(call.job_id or "")
        if status == "success":
            if film is None or film.end != "succeeded":
                return ["was paid for a film that nobody made"]
            return [] if cost == film.seconds * FILM_SECOND else [f"paid {cost} for {film}"]
        return [f"is {status} and cost {cost}"] if cost else []
    if status == "success":
        usual = call.promises
        return [] if cost in usual else [f"cost {cost}, not one of {usual}"]
    if call.kind == "image" and cost:
        return [f"is {status} and cost {cost}"]
    if call.is_whole and not call.process.is_dead:
        return [f"was answered in full and is {status}"]
    if cost and not call.client.blocks:
        return [f"cost {cost} and its client got nothing"]
    return []


def _twice(store: SimulatedStore, calls: Sequence[Call]) -> list[str]:
    """Submissions with one idempotency key are paid for once."""
    paid: dict[str, int] = {}
    for call in calls:
        row = store.rows.get(call.call_id)
        if call.key is not None and row is not None and row["status"] == "success":
            paid[call.key] = paid.get(call.key, 0) + 1
    return [f"{key} was paid for {count} times" for key, count in paid.items() if count > 1]
