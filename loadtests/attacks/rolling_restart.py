"""A gateway that is ended and replaced while clients call: what do they lose?

    python -m loadtests.attacks.rolling_restart [--processes 1 2] [--restarts 3] [--clients 20]
    python -m loadtests.attacks.rolling_restart --from COMMIT

First clients stream over kept connections when SIGTERM comes, and each makes its next call as its
stream ends. Then clients call in a loop, half of them over kept connections, while one gateway
after the other takes the port over; they try again when they are refused a connection, and only
then. Prints what became of the calls, and of each gateway that ended: its exit code, its open holds
and what `gw ledger verify` reports at once. Exits 1 if anything is not as it should be.

With `--from` the first gateway is that of an earlier commit, on a database of its own, which the
next one migrates under the calls; then the earlier one is started again, and must refuse what is
newer than itself. It needs a checkout with the commit in its history.
"""

from __future__ import annotations

import argparse
import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.caller import Caller, outcome
from tests.support.client import NANO_PER_USD, Client
from tests.support.folders import temporary_folder
from tests.support.house import House, house
from tests.support.postgres import TEMPLATE, PostgresForTests, running_postgres
from tests.support.processes import CommandFailed, ProcessDied
from tests.support.tenants import Tenant

CREDIT_NANO_USD = 1000 * NANO_PER_USD
# What a call may come to: a client can distinguish each from a failure.
FINE = {"200", "refused", "closed", "asked to come back"}
CALLING_SECONDS = 1.0  # between the steps of a restart
USAGE = {"input": 60, "output": 20}
COST_NANO_USD = 60 * 1_000 + 20 * 10_000
# What is under way when the next gateway takes over.
STREAM = {"events": 30, "delay_event_ms": 50, "usage": USAGE}


def ended(h: House) -> tuple[int, int, bool]:
    """Wait for the end; return exit code, open holds, and whether the ledger adds up at once."""
    code = h.gateway.wait()
    holds: int = h.query("SELECT count(*) FROM holds")[0]["count"]
    try:
        h.verify()
    except CommandFailed:
        return code, holds, False
    return code, holds, True


def drain(h: House, clients: int) -> bool:
    """End a gateway on which clients stream, each of whom goes on calling."""
    tenant = h.tenant(nano_usd=CREDIT_NANO_USD)
    callers = [Caller(h.gateway.url, tenant.key) for _ in range(clients)]

    def begin(place: int) -> http.client.HTTPResponse:
        sim = {"events": 20 + 2 * place, "delay_event_ms": 20}
        return callers[place].begin(stream=True, sim=sim)

    def goes_on(caller: Caller, answer: http.client.HTTPResponse) -> list[str]:
        seen = [outcome(answer, is_stream=True)]
        while seen[-1] == "200" and len(seen) < 4:
            seen.append(caller.call(stream=True))
        return seen

    with ThreadPoolExecutor(clients) as pool:
        answers = list(pool.map(begin, range(clients)))
        h.gateway.popen.send_signal(signal.SIGTERM)
        counts = Counter(one for seen in pool.map(goes_on, callers, answers) for one in seen)
    code, holds, is_proven = ended(h)
    for caller in callers:
        caller.close()
    print(f"  drain: {dict(counts)}; exit {code}, {holds} holds open, ledger proven: {is_proven}")
    return counts.keys() <= FINE and (code, holds, is_proven) == (0, 0, True)


def restart(h: House, tenant: Tenant, clients: int, restarts: int) -> bool:
    """Replace a gateway again and again under clients that only mind a refused connection.

    Half of them stream; in the end the last gateway is ended, and each call paid once.
    """
    counts: Counter[str] = Counter()
    stop, lock = threading.Event(), threading.Lock()

    def calls(*, keeps: bool, streams: bool) -> None:
        sim = STREAM if streams else {"usage": USAGE}
        with closing(Caller(h.gateway.url, tenant.key)) as caller:
            while not stop.is_set():
                found = caller.call(stream=streams, sim=sim)
                with lock:
                    counts[found] += 1
                if not keeps:
                    caller.close()

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
    code, holds, is_proven = ended(h)
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


def upgrade(postgres: PostgresForTests, commit: str, clients: int, restarts: int) -> bool:
    """Begin with the gateway of an earlier commit; the first restart is the upgrade."""
    with (
        earlier_program(commit) as environ,
        gateway(postgres, 1, template="template0", environ=environ) as h,
    ):
        owner = earlier_gw(h, environ, "account", "create", "earlier", "--credit-usd", "1000")
        issued = earlier_gw(h, environ, "key", "create", "--account", owner["id"], "--name", "k")
        tenant = Tenant(owner["id"], issued["id"], Client(h.gateway.url, issued["key"]))
        before = migrations(h)
        warned = [one["message"] for one in h.gw("check-config")["warnings"]]
        print(f"  check-config beforehand: {warned or 'no warning'}", flush=True)
        h.environ = {}
        is_fine = restart(h, tenant, clients, restarts)
        print(f"  migrations: {before}, then {migrations(h)}")
        refusal = earlier_gw(h, environ, "account", "list").get("error")
        print(f"  the earlier program goes on: {refusal or 'yes'}")
        is_fine &= refusal is not None
    return is_fine


@contextmanager
def earlier_program(commit: str) -> Iterator[Mapping[str, str]]:
    """Yield the environment in which `python -m gw` is the program of a commit."""
    packed = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    with temporary_folder() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
        # The working folder stands aside, which would give every process the program of here.
        yield {"PYTHONSAFEPATH": "1", "PYTHONPATH": str(folder)}


def earlier_gw(h: House, environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """What a command of the earlier program prints."""
    done = subprocess.run(
        [sys.executable, "-m", "gw", *arguments, "--config", str(h.config), "--json"],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        check=False,
    )
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def migrations(h: House) -> int:
    """How many the database has had."""
    count: int = h.query("SELECT count(*) FROM schema_migrations")[0]["count"]
    return count


@contextmanager
def gateway(
    postgres: PostgresForTests,
    processes: int,
    *,
    template: str = TEMPLATE,
    environ: Mapping[str, str] | None = None,
) -> Iterator[House]:
    """One on a port of its own, which the next one can take, too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    with (
        temporary_folder() as folder,
        postgres.database(template=template) as url,
        house(
            url,
            Path(folder),
            is_funded=False,
            environ=environ,
            processes=processes,
            listen=listen,
        ) as built,
    ):
        yield built


def main() -> int:
    """Attack, and report whether all is as it should be."""
    parser = argparse.ArgumentParser(description="End and replace gateways under load.")
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--from", dest="earlier", metavar="COMMIT")
    options = parser.parse_args()
    is_fine = True
    with temporary_folder() as folder, running_postgres(folder) as postgres:
        if options.earlier:
            print(f"from {options.earlier}", flush=True)
            return int(not upgrade(postgres, options.earlier, options.clients, options.restarts))
        for processes in options.processes:
            print(f"{processes} processes", flush=True)
            with gateway(postgres, processes) as h:
                for _ in range(options.restarts):
                    is_fine &= drain(h, options.clients)
                    h.gateway.close()
                    h.start()
                tenant = h.tenant(nano_usd=CREDIT_NANO_USD)
                is_fine &= restart(h, tenant, options.clients, options.restarts)
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
