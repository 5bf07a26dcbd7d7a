"""A dump that was made while calls went on is restored, and its ledger adds up.

What was in flight when the dump was made ends there as after a crash: it was never heard of again.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from actors.store.embedded.binaries import find_binaries
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

SETTINGS: dict[str, Any] = {"channels": [channel("one")], "models": [model("sim-model", "one")]}


def postgres_tool(name: str, *arguments: str) -> None:
    """Run a program of PostgreSQL's own."""
    done = subprocess.run(
        [find_binaries(os.environ).path(name), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_dump_of_a_serving_gateway_is_restored_and_verified(
    postgres: PostgresForTests, data_dir: Path
) -> None:
    dump = data_dir / "gateway.dump"
    with (
        postgres.database() as url,
        postgres.database(template="template0") as empty,
        deployment(url, data_dir, **SETTINGS) as h,
    ):
        tenant = h.tenant()
        for _ in range(5):
            assert tenant.client.chat().status == 200
        h.settled(tenant)
        with tenant.client.begin_chat(stream=True, sim={"events": 30, "pause": 5}) as stream:
            stream.read_until(b'"content":"')
            h.upstream.wait(paused=1)
            until(lambda: h.query("SELECT FROM holds"), what="the stream's hold written")
            postgres_tool("pg_dump", "--format", "custom", "--file", str(dump), url)
            balance = h.query("SELECT balance_nano_usd FROM accounts WHERE id = %s", tenant.account)
            assert tenant.client.chat().status == 200  # of which the dump knows nothing
            h.upstream.resume()
            stream.read_until(b"data: [DONE]\n\n")
        # On this host the dump's process is seen to live; so the old gateway ends first.
        assert h.gateway.terminate() == 0
        h.gateway.close()
        postgres_tool("pg_restore", "--no-owner", "--exit-on-error", "--dbname", empty, str(dump))
        h.write(database_url=empty)
        restored = Deployment(h.config, h.settings, h.upstream_url, simulator=h.simulator)
        h.verify()
        restored.start()
        try:
            what = "the call of the dump settled"
            until(lambda: not restored.query("SELECT FROM holds"), what=what)
            rows = restored.query("SELECT status, cost_nano_usd FROM call_logs ORDER BY id")
            assert [row["status"] for row in rows] == ["success"] * 5 + ["interrupted"]
            left = restored.query(
                "SELECT balance_nano_usd FROM accounts WHERE id = %s", tenant.account
            )
            charged = rows[-1]["cost_nano_usd"]
            assert left[0]["balance_nano_usd"] == balance[0]["balance_nano_usd"] - charged
            client = type(tenant.client)(restored.gateway.url, tenant.client.key)
            assert client.chat().status == 200
            restored.verify()
        finally:
            restored.gateway.terminate()
            restored.gateway.close()
            h.write(database_url=url)
            h.start()
