"""A gateway process that stands still while its calls are answered: what do these cost?

    python -m loadtests frozen_process [--calls 40] [--pace 1]

Two gateways share a database. One is stopped (SIGSTOP) with calls under way, plain ones and
streams; the upstream answers them meanwhile; the other one has time to take it for dead; then it
goes on (SIGCONT) and its clients read their answers. Once both are processes of one host, once of
two. Last, one is stopped while the hold of a call is made and goes on with no client waiting for
it any more. Prints for each what was answered, what of it cost nothing, and what `gw ledger verify`
says; exits 1 if anything is not as it should be. `--pace 0.15` takes a sixth of the time.
"""

from __future__ import annotations

import importlib
import signal
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gw.cli.main import main as gw
from loadtests.attacks.deployments import fresh_deployment
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.process import Process
from loadtests.rig.processes import CommandFailed
from loadtests.rig.site import ANYWHERE
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until

MODULE = "loadtests.attacks.frozen_process"  # a gateway, when it is run itself
# Of a gateway, scaled by its pace.
PACED = (
    ("actors.heartbeat", "BEAT_SECONDS"),
    ("actors.heartbeat", "BREAK_SECONDS"),
    ("actors.recovery", "INTERVAL_SECONDS"),
    ("actors.recovery", "STALE_SECONDS"),
    ("actors.wallet.wallets", "HOLD_SECONDS"),
)
# How long a process waits before it takes another for dead, and for a hold, at pace 1.
STALE_SECONDS = 10.0
HOLD_SECONDS = 10.0
USAGE = {"input": 10, "output": 5}
COST_NANO_USD = 60_000  # of that usage, at 1 and 10 USD per million


class Gateway(Process):
    """A gateway that may pose as one of another host; `pace` scales its waits."""

    def __init__(self, config: Path, *, host: str, pace: float) -> None:
        words = [MODULE, host, str(pace), "serve", "--config", str(config)]
        super().__init__(ANYWHERE.module(words))
        self.url = self.ready()["listen"]

    def stop(self) -> None:
        """Let it stand still."""
        self.popen.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self.popen.send_signal(signal.SIGCONT)


def be_gateway(host: str, pace: float, *command: str) -> int:
    """Be a gateway as another host would run it, and at another pace, with a few names changed.

    `host` is the host name it reports; an empty one leaves the name alone. `pace` multiplies how
    long it waits before it takes others for dead or gives up a hold.
    """
    if host:
        socket.gethostname = lambda: host
    for module_name, name in PACED:
        module = importlib.import_module(module_name)
        setattr(module, name, getattr(module, name) * pace)
    return gw(command)


@dataclass(frozen=True)
class Found:
    """What an attack has found; costs are in nano-USD."""

    attack: str
    served: int
    free: int
    rows: Counter[tuple[str, int]]  # status and cost
    statuses: Counter[int]  # of the answers
    verified: bool
    faults: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = ", ".join(f"{n} {status} at {cost}" for (status, cost), n in self.rows.items())
        proof = "the ledger adds up" if self.verified else f"NOT so: {', '.join(self.faults)}"
        return (
            f"{self.attack}: {self.served} answered, {self.free} of them cost nothing;"
            f" rows: {rows}; {proof}"
        )


@contextmanager
def gateways(h: Deployment, *, host: str, pace: float) -> Iterator[Gateway]:
    """One that judges, beside the deployment's own, and one of `host`, which is yielded."""
    with (
        closing(Gateway(h.config, host="", pace=pace)) as judge,
        closing(Gateway(h.config, host=host, pace=pace)) as victim,
    ):
        try:
            yield victim
        finally:
            victim.go_on()
            victim.terminate()
            judge.terminate()


def freeze_under_calls(h: Deployment, *, host: str, pace: float, calls: int) -> Found:
    """Stop a process with so many calls under way, and let them be answered meanwhile."""
    tenant = h.tenant()
    with gateways(h, host=host, pace=pace) as victim:
        client = Client(victim.url, tenant.key)
        begun = []
        for number in range(calls):
            is_stream = number % 2 == 1
            sim = {"usage": USAGE, "pause": 2 if is_stream else "headers"}
            begun.append(client.begin_chat(stream=is_stream, sim=sim))
        h.upstream.wait(paused=calls)
        until(lambda: heartbeats_of(h, tenant) == [calls], what="the calls' own heartbeat")
        victim.stop()
        h.upstream.resume()
        h.upstream.wait(paused=0)
        wait_for_judgement(h, tenant, seconds=3 * STALE_SECONDS * pace)
        victim.go_on()
        replies = [call.response() for call in begun]
        until(lambda: not holds(h, tenant), what="no hold open")
        served = [
            reply
            for reply in replies
            if reply.status == 200 and not reply.is_broken and b"error" not in reply.body
        ]
        # Settled means sent to the ledger: every later query comes after.
        assert client.remaining_nano_usd() > 0
        costs = {
            row["request_id"].replace("-", ""): row["cost_nano_usd"] for row in rows(h, tenant)
        }
        free = sum(costs[reply.trace] == 0 for reply in served)
        where = "another host" if host else "the same host"
        statuses = Counter(reply.status for reply in replies)
        return found(h, tenant, f"stopped, {where}", len(served), free, statuses)


def freeze_under_a_hold(h: Deployment, *, pace: float) -> Found:
    """Stop a process while a hold is being made: it is granted, and no client learns of it."""
    tenant = h.tenant()
    with gateways(h, host="elsewhere", pace=pace) as victim:
        client = Client(victim.url, tenant.key)
        assert client.remaining_nano_usd() > 0  # it knows the key by now
        with transaction(h.settings["database_url"]) as cursor:
            cursor.execute("SELECT FROM accounts WHERE id = %s FOR UPDATE", (tenant.account,))
            call = client.begin_chat(sim={"usage": USAGE})
            began = time.monotonic()
            until(lambda: waiting_batches(h) == 1, what="the batch in the database")
            victim.stop()
        until(lambda: rows(h, tenant), what="the row that recovery writes")
        patience = HOLD_SECONDS * pace
        until(lambda: time.monotonic() - began > 1.5 * patience, what="the end of its patience")
        victim.go_on()
        reply = call.response()
        assert client.remaining_nano_usd() > 0
        until(lambda: any(row["status"] == "rejected" for row in rows(h, tenant)), what="its row")
        statuses = Counter([reply.status])
        return found(h, tenant, "stopped under a hold", 0, 0, statuses)


def wait_for_judgement(h: Deployment, tenant: Tenant, *, seconds: float) -> None:
    """Until the process of these calls has been silent for so long, by the database's clock."""
    query = (
        "SELECT extract(epoch FROM now() - heartbeat_at) > %s AS is_silent FROM processes"
        " WHERE id = %s"
    )
    (owner,) = {hold["process_id"] for hold in holds(h, tenant)}
    # One that is gone from the table was declared dead, and all of its calls are settled.
    until(
        lambda: all(row["is_silent"] for row in h.query(query, seconds, owner)), what="its silence"
    )


def heartbeats_of(h: Deployment, tenant: Tenant) -> list[int]:
    """Open holds of the account, once what the streams among them delivered has been reported."""
    open_holds = holds(h, tenant)
    result = sum(hold["delivered"] is not None for hold in open_holds)
    return [len(open_holds)] if result == len(open_holds) // 2 else []


def holds(h: Deployment, tenant: Tenant) -> list[dict[str, Any]]:
    """The open holds of the account."""
    return h.query("SELECT * FROM holds WHERE account_id = %s", tenant.account)


def rows(h: Deployment, tenant: Tenant) -> list[dict[str, Any]]:
    """The rows of the account as they are at this moment."""
    return h.query("SELECT * FROM call_logs WHERE account_id = %s ORDER BY id", tenant.account)


def waiting_batches(h: Deployment) -> int:
    """How many batches of the ledger wait for a lock."""
    query = (
        "SELECT count(*) AS n FROM pg_stat_activity"
        " WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT ledger_batch(%%' AND %s"
    )
    return int(h.query(query, True)[0]["n"])


def found(
    h: Deployment, tenant: Tenant, attack: str, served: int, free: int, statuses: Counter[int]
) -> Found:
    """The rows, and the result of the proof."""
    logged = Counter((row["status"], row["cost_nano_usd"]) for row in rows(h, tenant))
    try:
        h.verify()
    except CommandFailed as failed:
        faults = tuple(sorted({fault["invariant"] for fault in failed.answer["faults"]}))
        return Found(attack, served, free, logged, statuses, False, faults)
    return Found(attack, served, free, logged, statuses, True)


def frozen_process(calls: int = 40, pace: float = 1.0) -> bool:
    """Freeze a process of the same host, of another one, and one under a hold."""
    is_well = True
    for attack in ("same host", "another host", "hold"):
        # The deployment demands a clean ledger when it is left, which is what is tried here.
        try:
            with fresh_deployment(is_funded=False) as h:
                if attack == "hold":
                    what = freeze_under_a_hold(h, pace=pace)
                else:
                    host = "" if attack == "same host" else "elsewhere"
                    what = freeze_under_calls(h, host=host, pace=pace, calls=calls)
                print(what, flush=True)
                is_well &= what.verified and what.free == 0
        except CommandFailed:
            is_well = False
    return is_well


if __name__ == "__main__":
    sys.exit(be_gateway(sys.argv[1], float(sys.argv[2]), *sys.argv[3:]))
