"""Every command of every runbook, run on one gateway, and in the state that it is about."""

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import yaml

from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from loadtests.rig.scrape import Admin
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance import films, sounds
from tests.acceptance.test_admin_api import AdminClient, client
from tests.support.logs import logs
from tests.support.receiver import Answer, Receiver
from tests.support.rows import each

RUNBOOKS = sorted((Path(__file__).parents[2] / "ops" / "runbooks").glob("*.md"))
# What stands between backticks and is run, by its first word. `gw serve` is named in passing.
RUN = ("gw", "SELECT", "POST", "GET", "ls", "prlimit", "ulimit")
# What is not run here: programs of other projects, the service manager's, and Redis's own.
NOT_RUN = (
    *("curl", "kill", "openssl", "psql", "PGPASSWORD=…", "py-spy", "redis-cli", "SLOWLOG", "ss"),
    "systemctl",
)
# PromQL is parsed by promtool (`tests/integration/prometheus`).
QUERIES = ("sum", "rate")
# Texts that are shown, and settings: no command.
TEXTS = {
    '"recorder": "off: process 1"',
    "--processes N",
    "address not public",
    "connections used up",
    "files used up",
    "gw serve",
    "gw serve --processes N",
    "no answer for 5 s",
    "no room",
    "on_429: next",
    "status 403",
    "the checkpoint of … is not what its entries come to",
    "too large",
}


def quoted_in(path: Path) -> list[str]:
    """What stands between backticks in a runbook, in its order."""
    return re.findall(r"`([^`]+)`", " ".join(path.read_text(encoding="utf-8").split()))


def commands_of(path: Path) -> list[str]:
    """The commands of a runbook, in its order."""
    return [
        text
        for text in quoted_in(path)
        if " " in text and text.split(" ")[0] in RUN and text not in TEXTS
    ]


COMMANDS = sorted({command for path in RUNBOOKS for command in commands_of(path)})
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=["chat", "videos"]),
        channel("listed", kind="openai", protocols=["chat"]),
        channel("sore", protocols=["chat"], health={"failures": 1, "cooldown": 600}),
    ],
    "models": [
        model("sim-model", "one"),
        model("sore-model", "sore"),
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


@dataclass(frozen=True)
class Watch:
    """A deployment with a settled call and an accepted film.

    `nouns`: what `ID` or `FILE` stands for beside a noun.
    """

    deployment: Deployment
    admin: AdminClient
    call: str
    nouns: Mapping[str, str]

    def run(self, command: str, call: str = "", **nouns: str) -> Any:
        """Run a command of a runbook. Raises for one that is refused or fails."""
        call = call or self.call
        if command.startswith("SELECT"):
            return self.deployment.query(command.replace("...", f"'{call}'"))
        noun = command.split(" ")[1]
        named = {**self.nouns, **nouns}.get(noun, "sore")
        meant = {"ID": named, "FILE": named, "CALL": call, "N": "60", "X": "5"}
        meant["T"] = datetime.now(UTC).isoformat()
        words = [meant.get(word, word) for word in shlex.split(command)]
        if command.startswith("gw "):
            return self.deployment.gw(*words[1:])
        if command.startswith("POST "):
            response = self.admin.post("/".join(meant.get(one, one) for one in noun.split("/")[3:]))
            assert response.status == 200, response
            return response.json
        if command.startswith("GET "):
            response = Admin(self.deployment.gateway.admin_url).get(noun)
            assert response.status == 200, response
            return response.json
        command = " ".join(meant.get(word, word) for word in command.split(" "))
        pid = str(self.deployment.gateway.pid)
        for name in ("--pid PID", "/proc/PID"):
            command = command.replace(name, name.replace("PID", pid))
        done = subprocess.run(
            ["sh", "-c", command.replace("--nofile=N", "--nofile=4096:")],
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def follow(self, runbook: str, call: str = "", **nouns: str) -> dict[str, list[Any]]:
        """Run the commands of a runbook in its order; return what each has shown, time by time.

        One that has found something ends with 1 and its report.
        """
        (path,) = (path for path in RUNBOOKS if path.stem == runbook)
        shown: dict[str, list[Any]] = {}
        for command in commands_of(path):
            try:
                report = self.run(command, call, **nouns)
            except CommandFailed as failed:
                if failed.code != FOUND or "error" in failed.answer:
                    raise
                report = failed.answer
            shown.setdefault(command, []).append(report)
        return shown

    def execute(self, statement: str) -> None:
        """Do something by hand in the database."""
        with transaction(self.deployment.settings["database_url"]) as cursor:
            cursor.execute(statement)


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
            client(h, "write"),
            call,
            {
                "budget": budget["id"],
                "account": h.account,
                "check-config": str(h.config),
                "reconcile": str(usage),
                "tasks": film.json["id"],
                "webhook": h.gw("webhook", "create", "--url", receiver.url)["id"],
            },
        )


# What a command replies that has nothing to mend here.
NOTHING_TO_MEND = {"gw ledger quarantine --book CALL": "not_quarantined"}


@each("path", RUNBOOKS)
def test_what_a_runbook_quotes_is_a_command_or_no_command(path: Path) -> None:
    for text in quoted_in(path):
        known = (
            text.split(" ")[0] in (*RUN, *NOT_RUN) or text.split("(")[0].split(" ")[0] in QUERIES
        )
        assert known or text in TEXTS or " " not in text, text


@each("command", COMMANDS)
def test_command_of_a_runbook_is_there_and_works(watch: Watch, command: str) -> None:
    if command not in NOTHING_TO_MEND:
        watch.run(command)
        return
    with pytest.raises(CommandFailed) as failed:
        watch.run(command)
    assert failed.value.answer["error"]["code"] == NOTHING_TO_MEND[command]


def test_a_task_that_nobody_has_polled_is_found_as_queued(watch: Watch) -> None:
    """In the order of the runbook: after `gw tasks cancel ID` another one waits."""
    film = films.submit(watch.deployment.client)
    (command,) = (one for one in COMMANDS if one == "gw tasks list --status queued")
    assert film.json["id"] in [task["id"] for task in watch.run(command)["tasks"]]


def faults_of(report: Mapping[str, Any]) -> set[str]:
    return {fault["invariant"] for fault in report["faults"]}


def test_quarantined_settlement_is_shown_and_booked(watch: Watch) -> None:
    h = watch.deployment
    usage = {"input": 777, "output": 1}  # 787 microdollars
    watch.execute("ALTER TABLE call_logs ADD CONSTRAINT no_787 CHECK (cost_nano_usd <> 787000)")
    try:
        reply = h.client.chat(model="sim-model", sim={"usage": usage})
        assert reply.status == 200
        until(lambda: h.query("SELECT FROM quarantine"), what="the quarantine")
    finally:
        watch.execute("ALTER TABLE call_logs DROP CONSTRAINT no_787")
    shown = watch.follow("settlement_quarantined", call=reply.trace)
    (listed,) = shown["gw ledger quarantine"]
    assert [UUID(one["call"]) for one in listed["calls"]] == [UUID(reply.trace)]
    assert [one["booked_as"] for one in shown["gw ledger quarantine --book CALL"]] == ["whole"]
    before, after = shown["gw ledger verify"]
    assert (faults_of(before), after["ok"]) == ({"quarantine_is_booked"}, True)
    assert h.row(reply.trace)["cost_nano_usd"] == 787_000


def test_row_that_is_off_is_named_until_it_is_mended(watch: Watch) -> None:
    h = watch.deployment
    tampered = "UPDATE accounts SET balance_nano_usd = balance_nano_usd {} 1 WHERE id = '{}'"
    admin = Admin(h.gateway.admin_url)
    watch.execute(tampered.format("+", h.account))
    try:
        shown = watch.follow("ledger_off")
        until(lambda: admin.page().total("gw_ledger_proof_faults") > 0, what="the alert's metric")
    finally:
        watch.execute(tampered.format("-", h.account))
    proofs = [one for name in shown if name.startswith("gw ledger verify") for one in shown[name]]
    assert len(proofs) == 4
    for report in proofs:
        assert [fault["account"] for fault in report["faults"]] == [h.account]
    assert [one["calls"] for one in shown["gw ledger repair"]] == [[]]
    assert watch.run("gw ledger verify")["ok"]
    until(lambda: admin.page().total("gw_ledger_proof_faults") == 0, what="its end")


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


def test_copies_that_wait_are_counted_by_channel_and_reason(watch: Watch) -> None:
    watch.execute(
        "INSERT INTO media_copies (id, job_id, position, store, channel_id, wire, upstream_id,"
        " content_type, error) SELECT 'copy' || n, 'vid_' || n, 0, 'local', 'one', 'sim', 'u',"
        " 'video/mp4', 'no room' FROM generate_series(1, 2) n"
    )
    try:
        ((rows,),) = watch.follow("media_copies_failing").values()
    finally:
        watch.execute("DELETE FROM media_copies")
    assert rows == [{"channel_id": "one", "error": "no room", "count": 2}]


@pytest.mark.parametrize("runbook", ["call_log_unkept", "database_pool_full"])
def test_session_that_locks_is_found(watch: Watch, runbook: str) -> None:
    with transaction(watch.deployment.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE call_logs IN ACCESS SHARE MODE; SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
        shown = watch.follow(runbook)
    (found,) = (rows for name, (rows,) in shown.items() if name.startswith("SELECT pid"))
    assert [row["query"] for row in found if row["pid"] == pid]


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
        h.gateway.popen.send_signal(signal.SIGHUP)
    assert failed.value.code == INVALID
    named = [f"{one['file']}:{one['line']}:" for one in failed.value.answer["error"]["faults"]]
    assert len(named) == len(logged) == 2
    assert all(text.startswith(place) for text, place in zip(logged, named, strict=True))
    h.event("configuration_reloaded")


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


def test_key_that_is_refused_is_probed_and_tried_again_by_hand(watch: Watch) -> None:
    h = watch.deployment
    h.upstream.fault("sore", status=401)
    assert h.client.chat(model="sore-model").status >= 400
    h.upstream.heal("sore")
    shown = watch.follow("channel_key_refused")
    assert shown["gw check-config --probe"]
    assert h.client.chat(model="sore-model").status == 200


def test_loss_is_shown_by_model_and_channel_and_call(watch: Watch) -> None:
    reply = watch.deployment.client.chat(model="cheap")
    assert reply.status == 200, reply
    watch.deployment.row(reply.trace)
    shown = watch.follow("calls_below_cost", call=reply.trace)
    (by_model,), (receipt,) = shown["gw margin --by model"], shown["gw receipt CALL"]
    losing = {row["model"] for row in by_model["rows"] if row["margin_usd"].startswith("-")}
    assert losing == {"cheap"}
    assert json.dumps(receipt).count("cheap")


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


PASSWORD = "password-of-tests"
NEEDS_NO_DATABASE = "gw check-config"


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
