"""Every command of every runbook, run on a gateway in the state that the runbook is about.

A test makes the state in which the alert fires, or would after its time, follows the runbook
(`about`), and looks at what it says. Programs of the host are run as they are: `psql` is the one
that the gateway brings; where `ss` is not installed, one of the test's own stands in for it, which
takes the options of the real one that a runbook gives it and reads the same from `/proc`.
"""

import asyncio
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
import yaml

from actors.store.embedded.binaries import find_binaries
from channels.families import PUBLIC_NAMES
from loadtests.attacks.frozen_process import gateways, rows
from loadtests.chaos.valkey import MortalValkey
from loadtests.rig.client import Client, nano_usd
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from loadtests.rig.refusals import without_function
from loadtests.rig.response import Disconnected
from loadtests.rig.scrape import Admin, Page
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance import films, sounds
from tests.acceptance.test_admin_api import AdminClient, client
from tests.acceptance.test_overload import CLIENTS, SHED_DELAY_MS, ask_again_and_again
from tests.acceptance.test_reload import reload
from tests.support.aio import run
from tests.support.certificates import pem_files
from tests.support.logs import logs
from tests.support.receiver import Answer, Receiver
from tests.support.rows import each
from tests.support.runbooks import PROGRAMS, RUN, RUNBOOKS, STATES, about, commands_in, quoted_in

# PromQL is parsed by promtool (`tests/integration/prometheus`).
QUERIES = ("sum", "rate")
# Texts that are shown, and settings: no command.
TEXTS = frozenset(
    {
        '"recorder": "off: process 1"',
        "--processes N",
        "address not public",
        "connections used up",
        "files used up",
        "gw serve",
        "gw serve --processes N",
        "no answer for 5 s",
        "no channel",
        "no room",
        "on_429: next",
        "status 403",
        "the checkpoint of … is not what its entries come to",
        "too large",
    }
)
STAND_IN = f"""#!{sys.executable}
import argparse, pathlib, socket, struct
options = argparse.ArgumentParser(prog="ss", allow_abbrev=False)
options.add_argument("-t", "--tcp", action="store_true", required=True)
options.add_argument("-n", "--numeric", action="store_true", required=True)
options.parse_args()
def place(text):
    address, port = text.split(":")
    return socket.inet_ntoa(struct.pack("<I", int(address, 16))) + f":{{int(port, 16)}}"
print("State Recv-Q Send-Q Local Address:Port Peer Address:Port")
for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
    _, local, peer, state, queues, *_ = line.split()
    sent, received = (int(one, 16) for one in queues.split(":"))
    if state == "01":
        print("ESTAB", received, sent, place(local), place(peer))
"""

SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=["chat", "videos"]),
        channel("listed", kind="openai", protocols=["chat"]),
        channel("sore", protocols=["chat"], health={"failures": 1, "cooldown": 600}),
        channel("narrow", protocols=["chat"], max_concurrency=1),
    ],
    "models": [
        model("sim-model", "one"),
        model("sore-model", "sore"),
        model("narrow-model", "narrow"),
        model("cheap", {"id": "one", "cost": {"input": "5", "output": "50"}}),
        model("film", "one", **sounds.FILMED),
    ],
    # A task that was accepted is polled by nobody until its test is over.
    "tasks": {"poll_first": 3600, "poll_max": 3600},
    "webhooks": {"allow": ["127.0.0.1"], "retry_seconds": [0.1]},
}
# Of a day without any, as OpenAI exports it.
NO_USAGE = {
    "object": "page",
    "data": [{"object": "bucket", "start_time": 1_700_000_000, "results": []}],
    "has_more": False,
    "next_page": None,
}
FOUND, INVALID = 1, 2  # exit codes of a command that has found something; of a bad file
# The runbooks that the present test has followed.
FOLLOWED: set[str] = set()


def commands_of(path: Path) -> list[str]:
    return commands_in(path.read_text(encoding="utf-8"), TEXTS)


COMMANDS = sorted({command for path in RUNBOOKS for command in commands_of(path)})


@dataclass(frozen=True)
class Watch:
    """A deployment with a settled call and an accepted film.

    `nouns`: what `ID` or `FILE` stands for beside a noun; `folder` has programs of the host that
    are missing.
    """

    deployment: Deployment
    token: str
    call: str
    nouns: Mapping[str, str]
    folder: Path

    @property
    def admin(self) -> AdminClient:
        """The admin API, on whatever port it is now."""
        return AdminClient(self.deployment.gateway.admin_url, self.token)

    def run(self, command: str, call: str = "", **nouns: str) -> Any:
        """Run a command of a runbook. Raises for one that is refused or fails."""
        call = call or self.call
        if command.startswith("SELECT"):
            return self.deployment.query(command.replace("...", f"'{call}'"))
        if command.split(" ")[0] in PROGRAMS:
            return self.shell(command)
        noun = command.split(" ")[1]
        named = {**self.nouns, **nouns}.get(noun, "sore")
        meant = {"ID": named, "FILE": named, "CALL": call, "N": "60", "X": "5"}
        meant["T"] = datetime.now(UTC).isoformat()
        if command.startswith("gw "):
            words = [meant.get(word, word) for word in shlex.split(command)]
            return self.deployment.gw(*words[1:])
        if command.startswith("POST "):
            response = self.admin.post("/".join(meant.get(one, one) for one in noun.split("/")[3:]))
            assert response.status == 200, response
            return response.json
        try:
            response = Admin(self.deployment.gateway.admin_url).get(noun)
        except (ConnectionError, Disconnected):
            return "no connection"
        return response.json

    def shell(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the host, its placeholders replaced by what this gateway has."""
        url = self.deployment.settings["database_url"]
        places = {
            "DATABASE_URL": shlex.quote(url),
            # Of the server that all tests share: the one that a gateway would embed.
            "DATA_DIR": str(Path(parse_qs(urlsplit(url).query)["host"][0]).parents[1]),
            "--pid PID": f"--pid {self.deployment.gateway.pid}",
            "/proc/PID": f"/proc/{self.deployment.gateway.pid}",
            "--nofile=N": "--nofile=4096:",
        }
        for place, meant in places.items():
            command = command.replace(place, meant)
        if shutil.which("ss") is None:
            (self.folder / "ss").write_text(STAND_IN)
            (self.folder / "ss").chmod(0o755)
        own = find_binaries({}).folder
        path = os.pathsep.join([str(own), os.environ["PATH"], str(self.folder)])
        return subprocess.run(
            ["bash", "-c", command],
            input="SELECT 'rea' || 'ched'",
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def follow(
        self,
        runbook: str,
        call: str = "",
        mend: Callable[[], object] = lambda: None,
        **nouns: str,
    ) -> dict[str, list[Any]]:
        """Run the commands of a runbook in its order; return what each has shown, time by time.

        `mend` comes before what there is to do. A command that has found something ends with 1 and
        its report.
        """
        (path,) = (path for path in RUNBOOKS if path.stem == runbook)
        look, do = path.read_text(encoding="utf-8").split("\n## Do\n")
        shown: dict[str, list[Any]] = {}
        for part, before in ((look, lambda: None), (do, mend)):
            before()
            for command in commands_in(part, TEXTS):
                try:
                    report = self.run(command, call, **nouns)
                except CommandFailed as failed:
                    if failed.code != FOUND or "error" in failed.answer:
                        raise
                    report = failed.answer
                shown.setdefault(command, []).append(report)
        FOLLOWED.add(runbook)
        return shown

    @contextmanager
    def beside(self, folder: Path, **settings: Any) -> Iterator["Watch"]:
        """Another gateway on the same database, with other settings."""
        h = self.deployment
        listeners = dict.fromkeys(("listen", "admin_listen"), "127.0.0.1:0")
        other = replace(
            h,
            config=folder / "gw.yaml",
            settings={**h.settings, **listeners, "data_dir": str(folder / "var"), **settings},
        )
        other.write()
        with closing(other.start()) as gateway:
            yield replace(self, deployment=other)
            assert gateway.terminate() == 0, gateway.log()

    def execute(self, statement: str) -> None:
        """Do something by hand in the database."""
        with transaction(self.deployment.settings["database_url"]) as cursor:
            cursor.execute(statement)

    def page(self) -> Page:
        """The gateway's metrics of this moment."""
        return Admin(self.deployment.gateway.admin_url).page()

    def sees(self, name: str, condition: Callable[[float], bool] = bool) -> None:
        """Wait until the sum of a metric is as the alert wants it."""
        until(lambda: condition(self.page().total(name)), what=name)


@pytest.fixture(scope="module")
def watch(postgres: PostgresForTests) -> Iterator[Watch]:
    with (
        temporary_folder() as folder,
        postgres.database() as url,
        deployment(url, folder, **SETTINGS) as h,
        Receiver() as receiver,
    ):
        reply = h.client.chat(model="sim-model")
        assert reply.status == 200, reply
        call = reply.headers["x-gateway-trace"]
        h.row(call)
        film = films.submit(h.client)
        assert film.status == 200, film
        usage = folder / "usage.json"
        usage.write_text(json.dumps(NO_USAGE), encoding="utf-8")
        words = ("--name=each", "--scope=every_user", "--period=day", "--limit-usd=5")
        budget = h.gw("budget", "create", "--account", h.account, *words)
        yield Watch(
            h,
            client(h, "write").token,
            call,
            {
                "budget": budget["id"],
                "account": h.account,
                "check-config": str(h.config),
                "reconcile": str(usage),
                "tasks": film.json["id"],
                "webhook": h.gw("webhook", "create", "--url", receiver.url)["id"],
            },
            folder,
        )


@pytest.fixture(autouse=True)
def followed(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that says that it follows a runbook has done so by its end."""
    FOLLOWED.clear()
    yield
    names = getattr(request.function, "runbooks", ())
    parameters = getattr(getattr(request.node, "callspec", None), "params", {})
    assert set(FOLLOWED) == ({parameters["runbook"]} if "runbook" in parameters else set(names))


@each("path", RUNBOOKS)
def test_what_a_runbook_quotes_is_a_command_or_no_command(path: Path) -> None:
    for text in quoted_in(path.read_text(encoding="utf-8")):
        known = text.split(" ")[0] in RUN or text.split("(")[0].split(" ")[0] in QUERIES
        assert known or text in TEXTS or " " not in text, text


def test_every_runbook_with_a_command_is_followed_in_its_state() -> None:
    """Those without one name metrics and lines of the log alone, and lead to others."""
    assert {path.stem for path in RUNBOOKS if commands_of(path)} == set(STATES)


def faults_of(report: Mapping[str, Any]) -> set[str]:
    return {fault["invariant"] for fault in report["faults"]}


def warnings_of(report: Mapping[str, Any]) -> dict[str, str]:
    return {one["path"]: one["message"] for one in report["warnings"]}


@about("settlement_quarantined")
def test_quarantined_settlement_is_shown_and_booked(watch: Watch) -> None:
    h = watch.deployment
    usage = {"input": 777, "output": 1}  # 787 microdollars
    watch.execute("ALTER TABLE call_logs ADD CONSTRAINT no_787 CHECK (cost_nano_usd <> 787000)")
    try:
        reply = h.tenant().client.chat(model="sim-model", sim={"usage": usage})
        assert reply.status == 200
        until(lambda: h.query("SELECT FROM quarantine"), what="the quarantine")
        # Whose age pages too, in time.
        assert h.query(
            "SELECT FROM holds WHERE process_id IS NOT NULL AND call_id = %s", reply.trace
        )
    finally:
        watch.execute("ALTER TABLE call_logs DROP CONSTRAINT no_787")
    shown = watch.follow("settlement_quarantined", call=reply.trace)
    (listed,) = shown["gw ledger quarantine"]
    assert [UUID(one["call"]) for one in listed["calls"]] == [UUID(reply.trace)]
    assert [one["booked_as"] for one in shown["gw ledger quarantine --book CALL"]] == ["whole"]
    before, after = shown["gw ledger verify"]
    assert (faults_of(before), after["ok"]) == ({"quarantine_is_booked"}, True)
    assert h.row(reply.trace)["cost_nano_usd"] == 787_000


@about("ledger_off")
def test_row_that_is_off_is_named_until_it_is_mended(watch: Watch) -> None:
    h = watch.deployment
    tampered = "UPDATE accounts SET balance_nano_usd = balance_nano_usd {} 1 WHERE id = '{}'"
    watch.execute(tampered.format("+", h.account))
    try:
        shown = watch.follow("ledger_off")
        watch.sees("gw_ledger_proof_faults")
    finally:
        watch.execute(tampered.format("-", h.account))
    proofs = [one for name in shown if name.startswith("gw ledger verify") for one in shown[name]]
    assert len(proofs) == 4
    for report in proofs:
        assert [fault["account"] for fault in report["faults"]] == [h.account]
    assert [one["calls"] for one in shown["gw ledger repair"]] == [[]]
    assert watch.run("gw ledger verify")["ok"]
    watch.sees("gw_ledger_proof_faults", lambda faults: faults == 0)


@about("ledger_unproved")
def test_proof_that_is_a_day_old_is_made_anew(watch: Watch) -> None:
    watch.run("gw ledger verify")
    watch.execute("UPDATE ledger_proofs SET proved_at = now() - interval '27 hours'")
    limit = datetime.now(UTC).timestamp() - 26 * 3600
    watch.sees("gw_ledger_proof_timestamp_seconds", lambda at: 0 < at < limit)
    reports = watch.follow("ledger_unproved")["gw ledger verify"]
    assert all(report["ok"] for report in reports)
    fresh = "SELECT proved_at > now() - interval '1 hour' AS is_fresh FROM ledger_proofs"
    assert watch.deployment.query(fresh) == [{"is_fresh": True}]


# What leaves money held that nobody will release, and how it is undone.
LEAKED = {
    "hold_overdue": (
        "hold_has_a_live_call",
        "UPDATE holds SET job_id = 'vid_gone' WHERE job_id = '{film}'",
        "UPDATE holds SET job_id = '{film}' WHERE job_id = 'vid_gone'",
    ),
    "lease_overdue": (
        "lease_has_a_live_process",
        "INSERT INTO leases (process_id, account_id, amount_nano_usd)"
        " VALUES ('gone', '{account}', 0)",
        "DELETE FROM leases WHERE process_id = 'gone'",
    ),
}


@about(*LEAKED)
@pytest.mark.parametrize("runbook", LEAKED)
def test_money_that_is_held_for_nobody_is_named(watch: Watch, runbook: str) -> None:
    invariant, leak, mend = LEAKED[runbook]
    h = watch.deployment
    names = {"film": films.submit(h.client).json["id"], "account": h.account}
    watch.execute(leak.format(**names))
    try:
        (report,) = watch.follow(runbook)["gw ledger verify"]
    finally:
        watch.execute(mend.format(**names))
    named = {fault["account"] for fault in report["faults"] if fault["invariant"] == invariant}
    assert named == {h.account}


@about("budget_overshoot")
def test_budget_that_was_passed_is_named(watch: Watch) -> None:
    h = watch.deployment
    tenant = h.tenant(user="5")  # a subject of the budget, as the runbook's X
    words = ("--name=own", "--scope=every_user", "--period=day", "--limit-usd=1")
    budget = h.gw("budget", "create", "--account", tenant.account, *words)["id"]
    assert tenant.client.chat(model="sim-model").status == 200
    h.settled(tenant)
    passed = f"UPDATE budget_sums SET overshoot_nano_usd = {{}} WHERE budget_id = '{budget}'"
    watch.execute(passed.format(1))
    try:
        watch.sees("gw_budget_overshoot_usd")
        shown = watch.follow("budget_overshoot", budget=budget)
    finally:
        watch.execute(passed.format(0))
    for report in shown["gw ledger verify"]:
        (fault,) = report["faults"]
        assert (fault["invariant"], fault["account"]) == ("budget_is_not_passed", tenant.account)
        assert budget in json.dumps(fault)
    (of_subject,) = shown["gw budget show ID --subject X"]
    assert nano_usd(of_subject["current"]["spent_usd"]) > 0
    assert h.gw("budget", "show", budget)["limit_usd"] == "5"


@about("budget_phantom_refusal")
def test_row_of_a_refusal_has_the_figures_by_which_it_is_judged(watch: Watch) -> None:
    """This one is right: a wrong one would be a defect."""
    h = watch.deployment
    tenant = h.tenant()
    words = ("--name=own", "--scope=account", "--period=day", "--limit-usd=0")
    budget = h.gw("budget", "create", "--account", tenant.account, *words)["id"]
    refused = tenant.client.chat(model="sim-model")
    assert refused.refusal[2] == "quota_exceeded", refused
    seen = h.row(refused.trace)["detail"]["budget"]
    assert seen["id"] == budget
    assert seen["limit"] - seen["spent"] - seen["held"] < seen["needed"]
    shown = watch.follow("budget_phantom_refusal", budget=budget)
    assert watch.page().total("gw_budget_phantom_refusals") == 0
    assert [one["ok"] for one in shown["gw ledger verify"]] == [True, True]
    assert tenant.client.chat(model="sim-model").status == 200  # the limit has been raised


@about("calls_below_cost")
def test_loss_is_shown_by_model_and_channel_and_call(watch: Watch) -> None:
    reply = watch.deployment.client.chat(model="cheap")
    assert reply.status == 200, reply
    watch.deployment.row(reply.trace)
    shown = watch.follow("calls_below_cost", call=reply.trace)
    (by_model,), (receipt,) = shown["gw margin --by model"], shown["gw receipt CALL"]
    losing = {row["model"] for row in by_model["rows"] if row["margin_usd"].startswith("-")}
    assert losing == {"cheap"}
    assert json.dumps(receipt).count("cheap")


@about("usage_doubted")
def test_usage_that_is_not_possible_is_in_the_log_and_the_row(watch: Watch) -> None:
    h = watch.deployment
    usage = {"input": 100_000_000, "output": 1}
    reply = h.client.chat(model="sim-model", sim={"usage": usage})
    assert reply.status == 200, reply
    watch.sees("gw_usage_doubted_total")
    assert h.row(reply.trace)["detail"]["doubted"] == {"input": 100_000_000}
    assert h.event("usage_doubted")["channel"] == "one"
    assert watch.follow("usage_doubted")


@about("usage_unpriced")
def test_usage_without_a_price_is_counted_by_what_it_was(watch: Watch) -> None:
    details = {"prompt_tokens_details": {"audio_tokens": 3}}
    reply = watch.deployment.client.chat(model="sim-model", sim={"usage": {"members": details}})
    assert reply.status == 200, reply
    watch.sees("gw_unpriced_usage_total")
    assert ("sim-model", "audio_input") in watch.page().series("gw_unpriced_usage_total")
    assert watch.follow("usage_unpriced")["gw models diff"]


def polled_now(watch: Watch, **sim: Any) -> str:
    """A film of the account, polled before its time under these directives."""
    h = watch.deployment
    h.upstream.fault("one", **sim)
    film: str = films.submit(h.client).json["id"]
    watch.execute(f"UPDATE job_polls SET due_at = now() WHERE job_id = '{film}'")
    reload(h)  # after which it looks
    return film


@about("tasks_overdue")
def test_task_that_nobody_has_polled_is_found_as_queued(watch: Watch) -> None:
    film = films.submit(watch.deployment.client).json["id"]
    shown = watch.follow("tasks_overdue")
    for command in ("gw tasks list --status queued", "gw tasks list"):
        (listed,) = shown[command]
        assert film in [task["id"] for task in listed["tasks"]]
    (running,) = shown["gw tasks list --status running"]
    assert film not in [task["id"] for task in running["tasks"]]


@about("task_polls_failing")
def test_task_whose_polls_fail_is_cancelled_and_refunded(watch: Watch) -> None:
    h = watch.deployment
    film = polled_now(watch, poll={"status": 500})
    try:
        until(
            lambda: watch.page().series("gw_task_polls_total").get(("one", "error"), 0) > 0,
            what="a poll that failed",
        )
        assert h.event("task_poll_failed")["channel"] == "one"
    finally:
        h.upstream.heal("one")
    held = "SELECT FROM holds WHERE job_id = %s"
    assert h.query(held, film)
    watch.follow("task_polls_failing", tasks=film)
    assert not h.query(held, film)
    assert films.polled(h.client, film)["status"] not in ("queued", "running")


@about("task_length_doubted")
def test_film_of_an_impossible_length_is_shown(watch: Watch) -> None:
    h = watch.deployment
    film = polled_now(watch, task_seconds=0, real_seconds=100_000)
    try:
        watch.sees("gw_task_lengths_doubted_total")
    finally:
        h.upstream.heal("one")
    assert h.event("task_length_doubted")["milliseconds"] == 100_000_000
    (shown,) = watch.follow("task_length_doubted", tasks=film)["gw tasks show ID"]
    assert shown["id"] == film


@about("media_copies_failing")
def test_copies_that_wait_are_counted_by_channel_and_reason(watch: Watch) -> None:
    watch.execute(
        "INSERT INTO media_copies (id, job_id, position, store, channel_id, wire, upstream_id,"
        " content_type, error) SELECT 'copy' || n, 'vid_' || n, 0, 'local', 'one', 'sim', 'u',"
        " 'video/mp4', 'no room' FROM generate_series(1, 2) n"
    )
    try:
        ((found,),) = watch.follow("media_copies_failing").values()
    finally:
        watch.execute("DELETE FROM media_copies")
    assert found == [{"channel_id": "one", "error": "no room", "count": 2}]


@about("webhook_failing")
def test_webhook_that_fails_has_dead_deliveries_until_they_are_replayed(watch: Watch) -> None:
    h = watch.deployment
    with Receiver() as receiver:
        receiver.answer = lambda _: Answer(500)
        webhook = h.gw("webhook", "create", "--url", receiver.url)["id"]
        h.gw("account", "create", "somebody")
        dead = "gw webhook deliveries ID --status dead"
        until(lambda: watch.run(dead, webhook=webhook)["deliveries"], what="a dead delivery")
        receiver.answer = lambda _: Answer(204)
        shown = watch.follow("webhook_failing", webhook=webhook)
        (listed,), ((one, *_),) = (
            [row for row in shown["gw webhook list"][0]["webhooks"] if row["id"] == webhook],
            [found["deliveries"] for found in shown[dead]],
        )
        assert (listed["dead"] > 0, one["last_outcome"]) == (True, "500")
        assert shown["gw webhook test ID"][0]["status"] == "delivered"
        until(lambda: not watch.run(dead, webhook=webhook)["deliveries"], what="the replay")


@about("webhook_backlog")
def test_webhook_whose_receiver_is_slow_has_pending_deliveries(watch: Watch) -> None:
    h = watch.deployment
    with Receiver() as receiver:
        receiver.answer = lambda _: Answer(seconds=3)
        webhook = h.gw("webhook", "create", "--url", receiver.url)["id"]
        h.gw("account", "create", "somebody")
        until(lambda: receiver.under_way, what="an attempt")
        shown = watch.follow("webhook_backlog", webhook=webhook)
    (listed,) = (one for one in shown["gw webhook list"][0]["webhooks"] if one["id"] == webhook)
    assert listed["pending"] > 0
    (listed,) = (one for one in watch.run("gw webhook list")["webhooks"] if one["id"] == webhook)
    assert not listed["enabled"]


@about("channel_open")
def test_channel_that_is_open_is_probed_and_closed_by_hand(watch: Watch) -> None:
    h = watch.deployment

    def chat() -> int:
        return h.client.chat(model="sore-model").status

    h.upstream.fault("sore", status=500)
    assert chat() >= 500
    h.upstream.heal("sore")
    assert chat() == 503  # its cooldown is ten minutes
    shown = watch.follow("channel_open")
    assert all("probes" in one for one in shown["gw check-config --probe"])
    assert chat() == 200


@about("no_channel_available")
def test_model_whose_channel_is_open_is_reached_by_its_configuration(watch: Watch) -> None:
    h = watch.deployment
    h.upstream.fault("sore", refuse=True)
    assert h.client.chat(model="sore-model").status >= 500
    refused = h.client.chat(model="sore-model")
    assert refused.refusal[2] == "no_channel_available", refused
    h.upstream.heal("sore")
    (report,) = watch.follow("no_channel_available")["gw matrix"]
    (row,) = (one for one in report["rows"] if "sore-model" in one["models"])
    assert row["protocols"][PUBLIC_NAMES["chat"]]["served"] == "native"  # but for its state
    watch.run("POST /admin/v1/channels/ID/open")


@about("all_channels_open")
@pytest.mark.long  # a gateway of its own
def test_way_out_that_is_broken_is_seen_by_a_probe_from_the_host(
    watch: Watch, tmp_path: Path
) -> None:
    h = watch.deployment
    away = channel("away", base_url="http://127.0.0.1:1", health={"failures": 1, "cooldown": 600})
    models = [model("sim-model", "away")]
    with watch.beside(tmp_path, channels=[away], models=models) as other:
        here = Client(other.deployment.gateway.url, h.key)
        assert here.chat().status == 502
        closed = ("away", "closed")
        assert other.page().series("gw_channel_state")[closed] == 0
        (report,) = other.follow("all_channels_open")["gw check-config --probe"]
    (probe,) = report["probes"]
    assert (report["ok"], probe["ok"], probe["status"]) == (False, False, None)
    assert "refused" in probe["message"].lower()


@about("channel_key_refused")
def test_key_that_is_refused_is_probed_and_tried_again_by_hand(watch: Watch) -> None:
    h = watch.deployment
    h.upstream.fault("sore", status=401)
    assert h.client.chat(model="sore-model").status >= 400
    h.upstream.heal("sore")
    shown = watch.follow("channel_key_refused")
    assert shown["gw check-config --probe"]
    assert h.client.chat(model="sore-model").status == 200


@about("channel_rate_limited")
def test_account_whose_calls_a_provider_throttles_is_limited(watch: Watch) -> None:
    h = watch.deployment
    tenant = h.tenant()
    h.upstream.fault("sore", status=429)
    try:
        assert tenant.client.chat(model="sore-model").status == 429
    finally:
        h.upstream.heal("sore")
    assert watch.page().series("gw_attempts_total")["sore", "rate_limited"] == 1
    watch.follow("channel_rate_limited", account=tenant.account)
    limited = tenant.client.chat(model="sim-model")
    assert limited.headers["x-ratelimit-limit-requests"] == "60"


@about("channel_full")
def test_account_that_fills_a_channel_is_limited(watch: Watch) -> None:
    h = watch.deployment
    tenant = h.tenant()
    with tenant.client.begin_chat(model="narrow-model", sim={"hang": "headers"}):
        h.upstream.wait(channel="narrow", active=1)
        page = watch.page()
        taken = page.value("gw_channel_slots_in_use", "narrow")
        assert taken / page.value("gw_channel_slots_limit", "narrow") > 0.9
        assert tenant.client.chat(model="narrow-model").status == 503
        watch.follow("channel_full", account=tenant.account)
        limited = tenant.client.chat(model="sim-model")
        assert limited.headers["x-ratelimit-limit-concurrency"] == "60"


@about("config_reload_refused")
def test_fault_of_a_refused_file_is_named_as_in_the_log(watch: Watch) -> None:
    h = watch.deployment
    h.config.write_text("listen: nowhere\nchannels: 5\n", encoding="utf-8")
    try:
        h.gateway.popen.send_signal(signal.SIGHUP)
        logged = h.event("reload_refused")["faults"]
        with pytest.raises(CommandFailed) as failed:
            watch.follow("config_reload_refused")
    finally:
        h.write()
        reload(h)
    FOLLOWED.add("config_reload_refused")  # its one command has found what it is for
    assert failed.value.code == INVALID
    named = [f"{one['file']}:{one['line']}:" for one in failed.value.answer["error"]["faults"]]
    assert len(named) == len(logged) == 2
    assert all(text.startswith(place) for text, place in zip(logged, named, strict=True))


@about("certificate_expiring")
@pytest.mark.long  # a gateway of its own
def test_renewed_certificate_that_was_not_read_is_told_from_one_that_was(
    watch: Watch, tmp_path: Path
) -> None:
    files = {name: tmp_path / f"{name}.pem" for name in ("certificate", "key")}

    def renew(days: int) -> None:
        for path, content in zip(
            files.values(), pem_files("gateway.example", days=days), strict=True
        ):
            path.write_bytes(content)

    def expiry(report: Mapping[str, Any]) -> float:
        return datetime.fromisoformat(report["certificate_expires_at"]).timestamp()

    renew(10)
    with watch.beside(tmp_path, tls={name: str(path) for name, path in files.items()}) as other:
        metric = "gw_certificate_expiry_timestamp_seconds"
        served = other.page().total(metric)
        assert served - datetime.now(UTC).timestamp() < 14 * 86_400
        assert expiry(other.run("gw check-config")) == served
        renew(90)
        (report,) = other.follow("certificate_expiring")["gw check-config"]
        assert expiry(report) > served + 79 * 86_400
        assert other.page().total(metric) == served
        reload(other.deployment)
        assert other.page().total(metric) == expiry(report)


@contextmanager
def files_limited(pid: int, soft: int) -> Iterator[None]:
    """A process that may have so many files open."""
    before, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (before, hard))


@about("files_running_out")
def test_process_that_has_few_files_left_is_given_more(watch: Watch) -> None:
    pid = watch.deployment.gateway.pid

    def used() -> float:
        files = watch.page().series("gw_files")
        count = len(os.listdir(f"/proc/{pid}/fd"))
        return count / (files["limit",] - files["reserve",])

    open_files = len(os.listdir(f"/proc/{pid}/fd"))
    with files_limited(pid, int(open_files * 4 / 3 / 0.85)):  # a quarter is the reserve
        assert used() > 0.8
        shown = watch.follow("files_running_out")
        assert used() < 0.8
    for (done,) in shown.values():
        assert done.returncode == 0, done
    (listed,) = shown["ls -l /proc/PID/fd"]
    assert listed.stdout.count("socket:[") >= 2  # its listeners


@about("connections_running_out")
def test_client_that_does_not_read_is_named_by_its_address(watch: Watch) -> None:
    h = watch.deployment
    with ExitStack() as stack, files_limited(h.gateway.pid, 120):  # which leaves 16 to clients
        idle = [h.client.begin_chat(sim={"hang": "headers"}) for _ in range(13)]
        slow = h.client.begin_chat(stream=True, sim={"endless": True})
        for call in (*idle, slow):
            stack.enter_context(call)
        h.upstream.wait(active=14)
        connections = watch.page().series("gw_http_connections")
        assert connections["in_use",] / connections["limit",] > 0.8
        host, port = slow._connection.opened.getsockname()

        def unsent() -> int:
            (done,) = watch.follow("connections_running_out").values()
            assert done[0].returncode == 0, done
            fields = [line.split() for line in done[0].stdout.splitlines()]
            (mine,) = (one for one in fields if one[4] == f"{host}:{port}")
            return int(mine[2])

        until(unsent, what="bytes that the client has not read")


@about("calls_shed")
@pytest.mark.long  # two hundred clients fill a process
def test_account_whose_load_is_too_much_is_limited(watch: Watch, tmp_path: Path) -> None:
    async def load(h: Deployment) -> None:
        seen: Counter[int] = Counter()
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(ask_again_and_again(h, seen, set()))

    with watch.beside(tmp_path, shed_delay_ms=SHED_DELAY_MS) as other:
        run(load(other.deployment))
        other.sees("gw_calls_shed_total")
        other.sees("gw_overloaded", lambda value: not value)
        tenant = other.deployment.tenant()
        other.follow("calls_shed", account=tenant.account)
        limited = tenant.client.chat(model="sim-model")
        assert limited.headers["x-ratelimit-limit-requests"] == "60"


@about("call_log_unkept", "database_pool_full")
@pytest.mark.parametrize("runbook", ["call_log_unkept", "database_pool_full"])
def test_session_that_locks_is_found(watch: Watch, runbook: str) -> None:
    h = watch.deployment
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE call_logs IN ACCESS SHARE MODE; SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        shown = watch.follow(runbook, account=h.tenant().account)
    (found,) = (found for name, (found,) in shown.items() if name.startswith("SELECT pid"))
    assert [row["query"] for row in found if row["pid"] == pid]


@about("database_down")
@logs("database_lost")  # by the command
def test_database_that_is_away_is_named_by_a_command_on_the_host(
    watch: Watch, postgres: PostgresForTests
) -> None:
    h = watch.deployment
    with ExitStack() as outage:
        outage.enter_context(postgres.away(h.settings["database_url"]))
        watch.sees("gw_database_up", lambda up: not up)
        assert Admin(h.gateway.admin_url).get("/readyz").status == 503

        def mend() -> None:
            outage.close()
            watch.sees("gw_database_up")

        shown = watch.follow("database_down", mend=mend)
    (checked,), (proved,) = shown["gw check-config"], shown["gw ledger verify"]
    assert "not currently accepting connections" in warnings_of(checked)["database_url"]
    refused, embedded = (done for name, (done,) in shown.items() if "psql" in name)
    assert refused.returncode == 2
    assert "not currently accepting connections" in refused.stderr
    assert "reached" in embedded.stdout, embedded
    assert proved["ok"]
    until(lambda: h.events("database_reached"), what="the line database_reached")


@about("database_refuses")
def test_database_that_refuses_a_statement_is_mended(watch: Watch) -> None:
    h = watch.deployment
    admin = Admin(h.gateway.admin_url)
    with ExitStack() as refusing:
        refusing.enter_context(without_function(h.settings["database_url"], "ledger_batch"))
        refusing.enter_context(h.tenant().client.begin_chat(model="sim-model"))
        watch.sees("gw_database_refusals_total")
        until(lambda: "42883" in str(admin.get("/readyz").json.get("database")), what="its words")
        until(
            lambda: h.events("database_refused", sqlstate="42883"), what="the line database_refused"
        )

        def mend() -> None:
            refusing.close()
            until(lambda: admin.get("/readyz").status == 200, what="the ledger")

        (proved,) = watch.follow("database_refuses", mend=mend)["gw ledger verify"]
    assert proved["ok"]


DIED = ("gateway_down", "calls_recovered", "recorder_damaged")


@about(*DIED)
@pytest.mark.long  # three gateways are killed and started
@pytest.mark.parametrize("runbook", DIED)
def test_gateway_that_was_killed_is_started_again_and_the_ledger_adds_up(
    watch: Watch, runbook: str
) -> None:
    h = watch.deployment
    with h.client.begin_chat(stream=True, sim={"hang": 2}) as call:
        call.read_until(b"data:")
        h.gateway.close()
    recorders = Path(h.settings["data_dir"], "recorder")
    if runbook == "recorder_damaged":
        (left,) = recorders.glob("*.calls")
        left.write_bytes(b"x" + left.read_bytes()[1:])

    def start() -> None:
        h.start()
        watch.sees("gw_calls_recovered_total")

    shown = watch.follow(runbook, mend=start)
    assert [one["ok"] for one in shown["gw ledger verify"]] == [True]
    h.event("calls_recovered")
    if runbook == "gateway_down":
        assert shown["GET /healthz"] == ["no connection"]
    if runbook == "recorder_damaged":
        watch.sees("gw_recorder_damage_total")
        assert h.event("recorder_damaged")["parts"] == 1  # its head
        assert list(recorders.glob("*.damaged"))


@about("limits_degraded")
@pytest.mark.long  # a gateway and a Redis of its own
def test_redis_that_is_away_is_named_by_a_command_on_the_host(
    watch: Watch, valkey: MortalValkey, tmp_path: Path
) -> None:
    url = f"{valkey.url}?socket_timeout=3"
    with watch.beside(tmp_path, redis_url=url) as other:
        h = other.deployment
        tenant = h.tenant(rpm=100)
        assert tenant.client.chat().status == 200
        assert "redis_url" not in warnings_of(other.run("gw check-config"))
        valkey.kill()
        assert tenant.client.chat().status == 200
        other.sees("gw_limits_degraded")
        why = h.event("redis_lost")["why"]
        (report,) = other.follow("limits_degraded", mend=valkey.start)["gw check-config"]
        warning = warnings_of(report)["redis_url"]
        assert warning.startswith("account limits would hold in each process alone: ")
        assert why
        other.sees("gw_limits_degraded", lambda value: not value)
        h.event("redis_reached")


PACE = 0.25


@about("taken_for_dead", "settled_again")
@pytest.mark.long  # a process has to be silent for long enough
def test_late_truth_of_a_process_taken_for_dead_corrects_what_recovery_settled(
    watch: Watch,
) -> None:
    """Of the second call nobody knows any more that recovery has settled it."""
    h = watch.deployment
    corrected, again = h.tenant(), h.tenant()
    with gateways(h, host="elsewhere", pace=PACE) as victim:
        admin = Admin(victim.words["admin"])
        calls = [
            Client(victim.url, tenant.key).begin_chat(sim={"pause": "headers"})
            for tenant in (corrected, again)
        ]
        h.upstream.wait(paused=2)
        victim.stop()
        h.upstream.resume()
        for tenant in (corrected, again):
            (row,) = until(partial(rows, h, tenant), what="the row that recovery writes")
            assert row["status"] == "interrupted"
        watch.execute(f"DELETE FROM recovered_calls WHERE account_id = '{again.account}'")
        victim.go_on()
        first, second = (call.response() for call in calls)
        assert (first.status, second.status) == (200, 200)
        names = ("taken_for_dead", "recoveries_corrected", "settle_noops")
        admin.page_when(
            lambda page: [page.total(f"gw_{name}_total") for name in names] == [1, 1, 1],
            what="each counted",
        )
        shown = watch.follow("taken_for_dead")
        ((row, *_),) = (found for name, (found,) in shown.items() if name.startswith("SELECT"))
        assert row["call_id"].replace("-", "") == first.trace
        shown = watch.follow("settled_again", call=second.trace)
        (entries,) = (found for name, (found,) in shown.items() if name.startswith("SELECT"))
    # What counts is what recovery has settled, which is nothing.
    assert [(one["kind"], one["amount_nano_usd"]) for one in entries] == [
        ("hold", 0),
        ("refund", 0),
    ]


PASSWORD = "password-of-tests"
NEEDS_NO_DATABASE = ("gw check-config", "gw matrix")


@pytest.fixture(scope="module")
def without_database(watch: Watch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same configuration for a database that nobody reaches."""
    path = tmp_path_factory.mktemp("away") / "gw.yaml"
    away = {
        **watch.deployment.settings,
        "database_url": f"postgresql://gw:{PASSWORD}@127.0.0.1:1/gw",
    }
    path.write_text(yaml.safe_dump(away), encoding="utf-8")
    return path


@logs("database_lost")
@each("command", [one for one in COMMANDS if one.startswith("gw ")])
def test_command_says_so_while_the_database_is_away(
    watch: Watch, without_database: Path, command: str
) -> None:
    """Some are for when it is back, and are tried before."""
    h, at = watch.deployment, watch.deployment.config
    h.config = without_database
    try:
        if command.startswith(NEEDS_NO_DATABASE):
            watch.run(command)
            return
        with pytest.raises(CommandFailed) as failed:
            watch.run(command)
    finally:
        h.config = at
    assert failed.value.code == FOUND
    assert failed.value.answer["error"]["code"] == "database_unavailable", failed.value
    assert PASSWORD not in str(failed.value)
    assert "Traceback" not in failed.value.stderr
