"""What must never happen in the simulation, and what must have happened once the world is well.

Safety is looked for at each statement that takes effect and at each attempt; the rest when all is
over. A breach is text, and the first one ends the run.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from math import floor
from typing import Any
from uuid import UUID

import ujson

from tests.simulation.budgets import InForce
from tests.simulation.clients import MESSAGES, Call, Credential
from tests.simulation.copies import CopyRow
from tests.simulation.files import Folder, content_of
from tests.simulation.process import GatewayProcess
from tests.simulation.store import OPEN, SimulatedStore
from tests.simulation.upstreams import Upstreams

# USD for a million tokens, an image, a second: with them most costs must be rounded, some of them
# in the very middle between two nano-USD.
PRICES = {
    "input": "1.0005",
    "cached_input": "0.10025",
    "output": "10.00025",
    "per_image": "0.0400000005",
    "per_second": "0.1000000005",
}
MULTIPLIER = "1.5"
MULTIPLIERS = {"m": MULTIPLIER, "n": "3.3"}
MILLION = 1_000_000
CHARACTERS_PER_TOKEN = 4
MESSAGES_TOKENS = -(-len(json.dumps(MESSAGES)) // CHARACTERS_PER_TOKEN)
Entry = tuple[str, str | None, UUID | None, str, int, int]


class Breach(Exception):
    """A rule was broken."""


def safety(store: SimulatedStore, processes: Iterable[GatewayProcess]) -> list[str]:
    """What is wrong at this moment."""
    found = [f"ledger: {fault}" for fault in store.faults()]
    found += [
        f"{account} holds {held}"
        for account, held in store.held.items()
        if held < 0
        or (store.balances[account] < 0 and store.balances[account] < -_owed(store, account))
    ]
    found += [
        f"{account} has {store.available(account)} beside the lease of {process}"
        for (process, account), amount in store.leases.items()
        if amount and store.available(account) < 0 and (process, account) not in store.called
    ]
    found += [
        f"{process} has admitted calls of {account} that its leases of budgets do not cover"
        for process, account in store.nodes.short - store.taken
        if process not in store.buried
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
    left += [f"lease of {process} on {account}, called back" for process, account in store.called]
    left += [f"{one.held} held of {place}" for place, one in store.nodes.sums.items() if one.held]
    left += [
        f"lease of {process} on {place}, below none of its account"
        for process, place in store.nodes.leases
        if (process, place[0]) not in store.leases
    ]
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


def on_budgets(
    store: SimulatedStore, calls: Iterable[Call], in_force: Sequence[InForce]
) -> list[str]:
    """Calls held on other nodes than those in force, or in a period that was over, or paid by the
    node of a model that has not served them.
    """
    found: list[str] = []
    held = {entry[2] for entry in store.entries if entry[3] == "hold"}
    since = store.clock.now() - store.clock.monotonic()
    for call in calls:
        row = store.rows.get(call.call_id)
        if row is None or "budgets" not in row or call.call_id not in held:
            continue
        places = [store.nodes.places[sum_id] for sum_id, _ in row["budgets"]]
        ids, paying = {place[1] for place in places}, [row["model"]]
        is_charged = int(str(row.get("cost") or 0)) > 0
        if call.is_chained:
            paying.append(call.served)
        for one in in_force:
            budget = store.nodes.budgets[one.budget_id]
            if budget.account_id != call.account or not one.is_of(call.requested_at, call.ended_at):
                continue
            is_matched = budget.scope == "account" or budget.subject == row["model"]
            is_matched |= is_charged and budget.subject in paying
            is_held_on = budget.id in ids
            if (is_held_on and not one.is_held_on) or (is_matched and one.is_held_on > is_held_on):
                found.append(f"call {call.number} is held on {sorted(ids)}, against {one}")
        for place in places:
            of_node = store.nodes.budgets.get(place[1])
            model = of_node.subject if of_node is not None and of_node.scope == "model" else None
            if is_charged and model is not None and model not in paying:
                found.append(f"call {call.number}, served by {call.served}, costs on {place[1]}")
            ends = store.nodes.sums[place].period_to
            if ends is not None and ends <= since + call.requested_at:
                found.append(f"call {call.number} is held in a period of {place[1]} that was over")
    return found


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


def cost_of(counts: dict[str, int], *, per: int, multiplier: str = MULTIPLIER) -> int:
    """Nano-USD for so many of what has a price: exact, rounded half up once (reference 5.1).

    Shares nothing with the gateway's arithmetic, which it judges.
    """
    usd = sum((Fraction(PRICES[name]) * count / per for name, count in counts.items()), Fraction())
    return floor(usd * Fraction(multiplier) * 10**9 + Fraction(1, 2))


def _cost_of_tokens(model: str, input_tokens: int, cached: int, output: int) -> int:
    counts = {"input": input_tokens - cached, "cached_input": cached, "output": output}
    return cost_of(counts, per=MILLION, multiplier=MULTIPLIERS[model])


def _cost_of_characters(model: str, characters: int) -> int:
    """What an answer costs of which the upstream has not stated the use (reference 5.1)."""
    return _cost_of_tokens(model, MESSAGES_TOKENS, 0, -(-characters // CHARACTERS_PER_TOKEN))


def _costs(call: Call, *, is_success: bool) -> set[int]:
    """What the row of a call for text or images may cost: one sum, where its process lives.

    A process that dies leaves what its heartbeat reported: any part of what was sent.
    """
    response = call.response
    if response is None or not (is_success or call.client.blocks):
        return {0}
    reported = response.reported
    if call.kind == "image":
        return {cost_of({"per_image": reported[0]}, per=1) if is_success and reported else 0}
    sent = response.characters if is_success else call.characters_sent
    whole, of_parts = 0, partial(_cost_of_characters, call.served)
    if reported:
        whole = _cost_of_tokens(call.served, *reported)
    elif sent:
        whole = of_parts(sent)
    if is_success or not call.process.is_dead:
        return {whole}
    return {0, whole, *map(of_parts, range(1, sent + 1))}


def _attempts(call: Call, row: dict[str, Any]) -> list[str]:
    """The row has the attempts that failed; the one that is answered is none of them.

    Those of a film are the job's, of which the store keeps none here.
    """
    if call.kind == "film":
        return []
    attempts = row.get("attempts") or []
    if isinstance(attempts, str):
        attempts = ujson.loads(attempts)
    count, has_response = len(attempts), row["status"] == "success" or call.has_begun
    tried = len(call.tried)
    usual = (tried - 1,) if has_response and tried else (tried - 1, tried)
    if count in usual or (call.process.is_dead and count == 0):
        return []
    return [f"has {count} failed attempts after {call.tried}"]


def _of_row(call: Call, row: dict[str, Any], upstreams: Upstreams) -> list[str]:
    status, cost = row["status"], int(str(row.get("cost") or 0))
    if wrong := _attempts(call, row):
        return wrong
    if call.kind == "film":
        film = upstreams.films.get(call.job_id or "")
        if status == "success":
            if film is None or film.end != "succeeded":
                return ["was paid for a film that nobody made"]
            whole = cost_of({"per_second": film.seconds}, per=1)
            return [] if cost == whole else [f"paid {cost}, not {whole}, for {film}"]
        return [f"is {status} and cost {cost}"] if cost else []
    usual = _costs(call, is_success=status == "success")
    if cost not in usual:
        return [f"is {status} and cost {cost}, not {sorted(usual)[:9]}"]
    if status != "success" and call.is_whole and not call.process.is_dead:
        return [f"was answered in full and is {status}"]
    return []


def _twice(store: SimulatedStore, calls: Sequence[Call]) -> list[str]:
    """Submissions with one idempotency key are paid for once."""
    paid: dict[str, int] = {}
    for call in calls:
        row = store.rows.get(call.call_id)
        if call.key is not None and row is not None and row["status"] == "success":
            paid[call.key] = paid.get(call.key, 0) + 1
    return [f"{key} was paid for {count} times" for key, count in paid.items() if count > 1]
