"""Make the database of this release: `python -m tests.releases VERSION`.

A gateway of two processes is used in every way that leaves something behind, and killed amid a
stream and a film. Run it once for each release, with the program that is tagged; the file is never
made anew.
"""

import argparse
import sys
from dataclasses import replace

from loadtests.rig.client import Client
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, channel, deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import running_postgres
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance import budgets, films
from tests.acceptance.every_family import SETTINGS, Callers, call_everything, callers
from tests.acceptance.test_admin_api import client
from tests.releases.databases import CUT_CALLS, FOLDER, dump
from tests.releases.rare import leave_what_is_rare
from tests.support.aio import run
from tests.support.console import visitor
from tests.support.receiver import Receiver

OPERATED = {
    **SETTINGS,
    "channels": [*SETTINGS["channels"], channel("aside")],
    "console_listen": A_KNOWN_PORT,
    "webhooks": {"allow": ["127.0.0.0/8"]},
}
WHOM = {
    "x-gateway-session": "s-1",
    "x-gateway-labels": "team=red",
}


def main() -> int:
    """Write `VERSION.dump.gz`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.releases", description=__doc__)
    parser.add_argument("version", help="of the program, as gw --version says it")
    file = FOLDER / f"{parser.parse_args().version}.dump.gz"
    if file.exists():
        parser.error(f"{file.name} is there: a release's database is never made anew")
    with (
        temporary_folder() as folder,
        running_postgres(folder / "postgres") as postgres,
        postgres.database() as url,
        Receiver() as receiver,
        deployment(url, folder, processes=2, **OPERATED) as h,
    ):
        run(leave_what_is_rare(url))
        who = callers(h, folder)
        operate(h, who, receiver)
        call_everything(h, who, number=1)
        leave_amid_calls(h, who.rich)
        dump(url, file)
        h.start()
        until(lambda: not h.query(CUT_CALLS), what="the end of the calls of the dump")
    return 0


def operate(h: Deployment, who: Callers, receiver: Receiver) -> None:
    """What operators and owners do beside calls."""
    owner, account = who.rich, who.rich.account
    h.gw("account", "price", account, "--factor", "0.9", "--models", "renamed")
    h.gw("account", "correct", account, "-0.25", "--reason", "a test")
    h.gw("account", "alerts", account, "--below-usd", "999.99")
    h.gw("key", "reveal", owner.key_id)
    asked = h.gw(
        *(
            "key",
            "request",
            "--account",
            account,
            "--agent",
            who.agent.agent_id,
            "--name",
            "wanted",
        ),
        *("--requested-by", "bob", "--spend-cap-usd", "1"),
    )
    h.gw("key", "approve", asked["id"])
    h.gw("kb", "grant", "--account", account, "--kb", "otters", "--to-user", "bob")
    admin = client(h, "write")
    credit = {"amount_usd": "1"}
    assert admin.post(f"accounts/{account}/topups", credit, Idempotency_Key="one").status == 201
    assert admin.post("channels/aside/drain").status == 200
    h.verify()
    h.gw("webhook", "create", "--url", receiver.url)
    h.gw("webhook", "create", "--url", receiver.url, "--type", "call.settled")
    for scope, more in (
        ("account", {}),
        ("every_end_user", {"period": "day", "time_zone": "Europe/Berlin"}),
        ("label", {"subject": "team=red", "period": "month", "action": "warn"}),
    ):
        budgets.make(h, owner, name=scope, scope=scope, limit_usd="50", **more)
    visitor(h, "--account", account)
    operator = visitor(h, "--operator")
    page = f"/accounts/{account}"
    operator.get(page)
    assert operator.post(page, {"act": "topup", "amount": "5"}).status_code == 303
    h.gw("console", "link", "--operator")


def tell_whom(tenant: Tenant) -> None:
    """Calls of which it is known whom they are for."""
    for number in range(30):
        run_id, ceiling = ("run-1", {}) if number % 2 else ("run-2", {"x-gateway-run-max-usd": "1"})
        whom = {**WHOM, "x-gateway-end-user": f"user-{number % 3}", "x-gateway-run": run_id}
        assert tenant.client.chat(headers={**whom, **ceiling}).status == 200


def are_leased(h: Deployment, tenant: Tenant) -> bool:
    tell_whom(tenant)
    return bool(h.query("SELECT FROM budget_leases"))


def leave_amid_calls(h: Deployment, tenant: Tenant) -> None:
    """Kill every process while a stream and a film are under way."""
    h.write(tasks={"poll_first": 3600, "poll_max": 3600})
    assert h.gateway.terminate() == 0
    h.gateway.close()
    h.start()
    tenant = replace(tenant, client=Client(h.gateway.url, tenant.key))
    assert films.submit(tenant.client).status == 200
    with tenant.client.begin_chat(stream=True, sim={"events": 30, "pause": 5}) as stream:
        stream.read_until(b'"content":"')
        h.upstream.wait(paused=1)
        until(lambda: len(h.query("SELECT FROM holds")) == 2, what="the stream's hold written")
        until(lambda: are_leased(h, tenant), what="a lease of a node")
        h.gateway.kill_all()
    h.upstream.resume()


if __name__ == "__main__":
    sys.exit(main())
