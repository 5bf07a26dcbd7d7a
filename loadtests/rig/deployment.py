"""What an acceptance test runs: simulator, database, configuration, gateway, a funded key.

    with deployment(database_url, folder) as h:
        h.gateway.url, h.key, h.account ...

The configuration has the model `sim-model` on three channels (`one`, `two`, `three`) of the
simulator, in this order of priority; other channels and models are given as settings. A module
whose tests can share one makes it with `shared_deployment`, and each test its own `tenant`.
"""

import copy
import json
import random
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extras

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.client import Client
from loadtests.rig.folders import temporary_folder
from loadtests.rig.installation import Installation
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.process import ProcessDied
from loadtests.rig.processes import GatewayProcess, SimulatorProcess
from loadtests.rig.tenants import Registrar, Tenant
from loadtests.rig.upstream import Upstream, key_of
from loadtests.rig.waiting import until

PRICE = {"input": "1", "output": "10", "cached_input": "0.1"}
SECRET = "a secret for tests only"
# An address of a setting, where port 0 will not do: a port that was free when the gateway started.
A_KNOWN_PORT = "127.0.0.1:known"


def channel(channel_id: str, **more: Any) -> dict[str, Any]:
    """A channel that speaks chat, to the simulator unless it says `base_url`.

    Its api key is `key-of-<id>`; its breaker stays closed whatever a test does to it.
    """
    return {
        "id": channel_id,
        "api_key": key_of(channel_id),
        "protocols": ["chat"],
        "health": {"failures": 1000},
        **more,
    }


def model(model_id: str, *channels: Any, **more: Any) -> dict[str, Any]:
    """A chat model on these channels at 1 USD in, 10 USD out per million tokens."""
    return {
        "id": model_id,
        "channels": list(channels),
        "max_output_tokens": 1000,
        "price": dict(PRICE),
        "owned_by": "sim",
        **more,
    }


def free_port() -> int:
    """A port that nobody listens on, below those that connections get by themselves."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def configuration(database_url: str) -> dict[str, Any]:
    """What `gw.yaml` says unless a test says otherwise."""
    return {
        "listen": "127.0.0.1:0",
        "admin_listen": "127.0.0.1:0",
        "database_url": database_url,
        "secret": SECRET,
        "drain_seconds": 60,
        # A machine that is busy with other tests makes work wait as an overload does.
        "shed_delay_ms": 0,
        "channels": [
            channel(name, priority=place)
            for place, name in enumerate(("one", "two", "three"), start=1)
        ],
        "models": [model("sim-model", "one", "two", "three")],
    }


@dataclass(kw_only=True)
class Deployment(Installation):
    """Everything a test talks to. `start` may be called again and again."""

    simulator: SimulatorProcess
    gateway: GatewayProcess = field(init=False)
    usd: str = "10"
    _account: str = ""
    _key: str = ""

    @property
    def upstream(self) -> Upstream:
        return Upstream(self.simulator.url)

    @property
    def client(self) -> Client:
        """A client with the deployment's own key."""
        return Client(self.gateway.url, self.key)

    def start(self) -> GatewayProcess:
        """Start a gateway on the configuration as it is now."""
        self.gateway = self.serve()
        return self.gateway

    def start_on_known_ports(self) -> GatewayProcess:
        """Start it the first time, with a port for each `A_KNOWN_PORT` of its settings."""
        names = [name for name, value in self.settings.items() if value == A_KNOWN_PORT]

        def started() -> GatewayProcess | None:
            self.write(**{name: f"127.0.0.1:{free_port()}" for name in names})
            try:
                return self.start()
            except ProcessDied as died:
                if names and "Address already in use" in str(died):
                    return None
                raise

        return until(started, what="a gateway on free ports")

    def restart_upstream(self) -> None:
        """Kill the simulator and start another one in its place."""
        port = self.simulator.url.rpartition(":")[2]
        self.simulator.close()

        def started() -> SimulatorProcess | None:
            try:
                return SimulatorProcess(port=int(port))
            except ProcessDied:
                return None  # somebody else's connection has this port for the moment

        self.simulator = until(started, what="the simulator on its old port")

    @property
    def account(self) -> str:
        """The deployment's own account; made by the command line when it is first asked for."""
        self.fund()
        return self._account

    @property
    def key(self) -> str:
        """Its key."""
        self.fund()
        return self._key

    def fund(self) -> None:
        """Make sure that there are an account and a key."""
        if not self._key:
            named = ("--name", "tests")
            self._account = self.gw("account", "create", "tests", "--credit-usd", self.usd)["id"]
            self._key = self.gw("key", "create", "--account", self._account, *named)["key"]

    def tenant(self, **options: Any) -> Tenant:
        """A new account and key (`tenants.py`)."""
        return self._registrar.tenant(**options)

    def another(self, tenant: Tenant, **key: Any) -> Tenant:
        """Another key of a tenant's account."""
        return self._registrar.another(tenant, **key)

    def agent(self, tenant: Tenant, **settings: Any) -> Tenant:
        """A key of a new agent of a tenant's account."""
        return self._registrar.agent(tenant, **settings)

    def query(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        """The rows of one query, by the names of their columns."""
        connection = psycopg2.connect(self.settings["database_url"])
        try:
            with connection.cursor(cursor_factory=psycopg2.extras.RealDictCursor) as cursor:
                cursor.execute(query, parameters or None)
                return [dict(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def settled(self, tenant: Tenant) -> None:
        """Wait until the gateway has written what it knows of the account.

        An answer goes out before its row and its settlement are durable. What is still under way,
        and what another process knows, a test has to wait for with `until`.
        """
        if self.processes == 1 and self.gateway.popen.poll() is None:
            client = Client(self.gateway.url, tenant.key)
            response = client.get("/v1/key/balance")
            assert response.status == 200, response

    def row(self, trace: str) -> dict[str, Any]:
        """The one row of the call with this trace id, once it is there."""

        def found() -> list[dict[str, Any]]:
            return self.query("SELECT * FROM call_logs WHERE request_id = %s::uuid", trace)

        (row,) = until(found, what=f"the row of {trace}")
        return row

    def rows(self, tenant: Tenant) -> list[dict[str, Any]]:
        """The rows of an account in the order in which they were written, once it is settled."""
        self.settled(tenant)
        query = "SELECT * FROM call_logs WHERE account_id = %s ORDER BY id"
        return self.query(query, tenant.account)

    def held_nano_usd(self, tenant: Tenant) -> int:
        """What the account's open holds reserve, once it is settled."""
        self.settled(tenant)
        query = "SELECT held_nano_usd FROM accounts WHERE id = %s"
        held: int = self.query(query, tenant.account)[0]["held_nano_usd"]
        return held

    def balance_nano_usd(self, tenant: Tenant) -> int:
        """The account's balance, below zero too, once it is settled."""
        self.settled(tenant)
        query = "SELECT balance_nano_usd FROM accounts WHERE id = %s"
        balance: int = self.query(query, tenant.account)[0]["balance_nano_usd"]
        return balance

    def spent_nano_usd(self, tenant: Tenant, granted: int = NANO_PER_USD) -> int:
        """What the account has paid of what it was granted, once no hold is open."""
        until(lambda: self.held_nano_usd(tenant) == 0, what="every hold released")
        return granted - self.balance_nano_usd(tenant)

    def metrics(self, name: str) -> dict[str, float]:
        """The samples of one metric of the gateway, by their labels as they are written."""
        page = Client(self.gateway.admin_url, None).get("/metrics").body
        found = re.findall(rf"^{name}{{(.*)}} (\S+)", page.decode(), re.MULTILINE)
        return {labels: float(value) for labels, value in found}

    def events(self, action: str, **fields: Any) -> list[dict[str, Any]]:
        """The lines with this action and these fields that the gateway has logged by now.

        A line is written by a thread of its own: a response may be here before it.
        """
        wanted = {"action": action, **fields}
        return [line for line in logged(self.gateway.lines) if wanted.items() <= line.items()]

    def event(self, action: str, **fields: Any) -> dict[str, Any]:
        """The one line with this action and these fields, once it is there."""
        (line,) = until(lambda: self.events(action, **fields), what=f"the line {action}")
        return line

    @property
    def _registrar(self) -> Registrar:
        return Registrar(self.settings["database_url"], self.settings["secret"], self.gateway.url)


def logged(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The lines of a gateway's log; what is no JSON, but for the ready line, is a fault."""
    for line in lines:
        if not line.startswith("ready "):
            assert line.startswith("{"), f"not a line of the log: {line}"
            yield json.loads(line)


def complaints(lines: Sequence[str], *, expected: Sequence[str] = ()) -> list[str]:
    """What a gateway logged as an error, but for the expected actions."""
    return [
        str(line)
        for line in logged(lines)
        if line["level"] in ("error", "critical") and line["action"] not in expected
    ]


@contextmanager
def deployment(
    database_url: str,
    folder: Path,
    *,
    usd: str = "10",
    is_funded: bool = True,
    environ: Mapping[str, str] | None = None,
    processes: int = 1,
    **settings: Any,
) -> Iterator[Deployment]:
    """A running deployment; everything is gone afterwards and the ledger was verified."""
    simulator = SimulatorProcess()
    built = Deployment(
        folder / "gw.yaml",
        configuration(database_url),
        simulator.url,
        simulator=simulator,
        environ=environ or {},
        usd=usd,
        processes=processes,
    )
    try:
        built.settings["data_dir"] = str(folder / "var")
        built.write(**copy.deepcopy(settings))  # modules may share them
        gateway = built.start_on_known_ports()
        try:
            if is_funded:
                built.fund()
            yield built
            if built.gateway.popen.poll() is None:
                assert built.gateway.terminate() == 0, built.gateway.log()
            built.verify()
        finally:
            built.gateway.close()
            gateway.close()
    finally:
        built.simulator.close()


@contextmanager
def shared_deployment(
    postgres: PostgresForTests, *, expected_log: Sequence[str] = (), **settings: Any
) -> Iterator[Deployment]:
    """A deployment for all tests of a module, which must have logged no other error by the end."""
    with temporary_folder() as folder, postgres.database() as url:
        with deployment(url, folder, is_funded=False, **settings) as built:
            yield built
            gateway = built.gateway
        errors = complaints(gateway.lines, expected=expected_log)
        assert not errors, f"{len(errors)} errors logged, among them " + "\n".join(errors[:3])
