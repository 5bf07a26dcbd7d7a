"""Every command of every runbook, run on a gateway that has what the runbooks are about."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from tests.acceptance import films, sounds
from tests.support.receiver import Receiver
from tests.support.rows import each

RUNBOOKS = sorted((Path(__file__).parents[2] / "ops" / "runbooks").glob("*.md"))
COMMAND = re.compile(r"`((?:gw|SELECT) [^`]+)`")
COMMANDS = sorted(
    {
        command
        for path in RUNBOOKS
        for command in COMMAND.findall(" ".join(path.read_text(encoding="utf-8").split()))
        if not command.startswith("gw serve")  # named in passing: it runs
    }
)
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=["chat", "videos"]),
        channel("listed", kind="openai", protocols=["chat"]),
    ],
    "models": [model("sim-model", "one"), model("film", "one", **sounds.FILMED)],
    # A task that was accepted is polled by nobody until its test is over.
    "tasks": {"poll_first": 3600, "poll_max": 3600},
    "webhooks": {"allow": ["127.0.0.1"]},
}
# Of a day without any, as OpenAI exports it.
NO_USAGE = {
    "object": "page",
    "data": [{"object": "bucket", "start_time": 1_700_000_000, "results": []}],
    "has_more": False,
    "next_page": None,
}


@dataclass(frozen=True)
class Watch:
    """A deployment with a settled call and an accepted film; what words in capitals stand for."""

    deployment: Deployment
    values: Mapping[str, str]

    def run(self, command: str) -> Any:
        """Run a command of a runbook. Raises for one that is refused or fails."""
        if command.startswith("SELECT"):
            return self.deployment.query(command.replace("...", f"'{self.values['CALL']}'"))
        words = shlex.split(command)[1:]
        of_noun = self.values.get(words[0], "")
        meant = {"ID": of_noun, "FILE": of_noun, "CALL": self.values["CALL"], "N": "60", "X": "5"}
        return self.deployment.gw(*(meant.get(word, word) for word in words))


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
        words = ("--name=all", "--scope=account", "--period=day", "--limit-usd=5")
        budget = h.gw("budget", "create", "--account", h.account, *words)
        yield Watch(
            h,
            {
                "budget": budget["id"],
                "CALL": call,
                "account": h.account,
                "check-config": str(h.config),
                "reconcile": str(usage),
                "tasks": film.json["id"],
                "webhook": h.gw("webhook", "create", "--url", receiver.url)["id"],
            },
        )


# What a command replies that has nothing to mend here.
NOTHING_TO_MEND = {"gw ledger quarantine --book CALL": "not_quarantined"}


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
