"""The gateway of an earlier commit is replaced by this one under calls: what do clients lose?

    python -m loadtests rolling_restart --from COMMIT [--restarts 3] [--clients 20]

Clients call in a loop, half of them over kept connections and half of them streams, while one
gateway after the other takes the port over; they try again when they are refused a connection, and
only then. The first gateway is that of a commit, on a database of its own, which the next one
migrates under the calls; then the earlier one is started again, and must refuse what is newer than
itself. Prints what became of the calls, the exit code, open holds and what `gw ledger verify`
reports at the end. Exits 1 if anything is not as it should be. It needs a checkout with the commit
in its history. (`./ops/chaos --only rolling-restart` replaces a gateway by its like.)
"""

from __future__ import annotations

import io
import signal
import subprocess
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from actors.wallet.money import NANO_PER_USD
from loadtests.attacks.deployments import fresh_deployment
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.machine import free_ports
from loadtests.rig.process import ProcessDied
from loadtests.rig.processes import CommandFailed, gw
from loadtests.rig.tenants import Tenant

CREDIT_NANO_USD = 1000 * NANO_PER_USD
CALLING_SECONDS = 1.0  # between the steps of a restart
USAGE = {"input": 60, "output": 20}
COST_NANO_USD = 60 * 1_000 + 20 * 10_000
# What is under way when the next gateway takes over.
STREAM = {"events": 30, "delay_event_ms": 50, "usage": USAGE}


def is_verified(h: Deployment) -> bool:
    """Whether the ledger adds up."""
    try:
        return bool(h.verify())
    except CommandFailed:
        return False


def restart(h: Deployment, tenant: Tenant, clients: int, restarts: int) -> bool:
    """Replace a gateway again and again under clients that only mind a refused connection.

    Half of them stream; in the end the last gateway is ended, and each call paid once.
    """
    counts: Counter[str] = Counter()
    stop, lock = threading.Event(), threading.Lock()

    def calls(*, keeps: bool, streams: bool) -> None:
        sim = STREAM if streams else {"usage": USAGE}
        with closing(tenant.client.kept()) as client:
            while not stop.is_set():
                found = client.outcome(stream=streams, sim=sim)
                with lock:
                    counts[found] += 1
                if not keeps:
                    client.close()

    codes = []
    with ThreadPoolExecutor(clients) as pool:
        running = [
            pool.submit(calls, keeps=place % 2 == 0, streams=place % 4 < 2)
            for place in range(clients)
        ]
        try:
            for _ in range(restarts):
                time.sleep(CALLING_SECONDS)
                old = h.gateway
                h.start()
                time.sleep(CALLING_SECONDS)
                codes.append(old.terminate())
                old.close()
        except ProcessDied as died:
            print(f"  no gateway beside another one: {str(died).splitlines()[-1]}")
            return False
        finally:
            stop.set()
        for one in running:
            one.result()
    h.gateway.popen.send_signal(signal.SIGTERM)
    code, holds = h.gateway.wait(), h.query("SELECT count(*) FROM holds")[0]["count"]
    is_proven = is_verified(h)
    query = "SELECT balance_nano_usd AS left FROM accounts WHERE id = %s"
    spent = CREDIT_NANO_USD - h.query(query, tenant.account)[0]["left"]
    failed = {name: count for name, count in counts.items() if name not in ("200", "refused")}
    print(
        f"  restarts: {counts['200']} calls answered, {failed or 'none'} failed, exits {codes};"
        f" paid {spent} nano-USD of {counts['200'] * COST_NANO_USD};"
        f" exit {code}, {holds} holds open, ledger proven: {is_proven}"
    )
    is_paid = spent == counts["200"] * COST_NANO_USD
    return is_paid and not failed and not any(codes) and (code, holds, is_proven) == (0, 0, True)


def rolling_restart(from_: str = "HEAD", restarts: int = 3, clients: int = 20) -> bool:
    """Begin with the gateway of a commit; the first restart is the upgrade."""
    listen = f"127.0.0.1:{free_ports(1)[0]}"  # a port that the next gateway can take, too
    print(f"from {from_}", flush=True)
    with (
        earlier_program(from_) as environ,
        fresh_deployment(
            template="template0", is_funded=False, environ=environ, listen=listen
        ) as h,
    ):
        owner = earlier_gw(h, environ, "account", "create", "earlier", "--credit-usd", "1000")
        issued = earlier_gw(h, environ, "key", "create", "--account", owner["id"], "--name", "k")
        tenant = Tenant(owner["id"], issued["id"], Client(h.gateway.url, issued["key"]))
        before = migrations(h)
        warned = [one["message"] for one in h.gw("check-config")["warnings"]]
        print(f"  check-config beforehand: {warned or 'no warning'}", flush=True)
        h.environ = {}
        is_fine = restart(h, tenant, clients, restarts)
        after = migrations(h)
        print(f"  migrations: {before}, then {after}")
        refusal = earlier_gw(h, environ, "account", "list").get("error")
        print(f"  the earlier program goes on: {refusal or 'yes'}")
    return is_fine and (before == after or refusal is not None)


@contextmanager
def earlier_program(commit: str) -> Iterator[Mapping[str, str]]:
    """Yield the environment in which `python -m gw` is the program of a commit."""
    packed = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    with temporary_folder() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        # The working folder stands aside, which would give every process the program of here.
        yield {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(folder)}


def earlier_gw(h: Deployment, environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What a command of the earlier program prints."""
    try:
        printed: dict[str, Any] = gw(h.config, *arguments, environ=environ)
    except CommandFailed as refused:
        printed = refused.answer
    return printed


def migrations(h: Deployment) -> int:
    """How many the database has had."""
    count: int = h.query("SELECT count(*) FROM schema_migrations")[0]["count"]
    return count
