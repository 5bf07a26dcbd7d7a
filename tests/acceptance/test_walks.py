"""One call runs downwards through the files of the product, recorded in a real process.

Recorded is what a call enters that an idle gateway does not. It goes back up where a file calls one
that imports it, and that it does not import itself.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance import films, pictures
from tests.acceptance.bases import imported
from tests.support import recorder
from tests.tidy.files import ROOT, imports_of, module_of

pytestmark = pytest.mark.long

# What one has to look up in a callback to follow a call; they only ever fall.
CALLS_BACK_UP_MAX = {"chat": 3, "messages": 4, "image": 5, "video": 15, "search": 1}

Entered = set[tuple[str, str, str, str]]
QUESTION = [{"role": "user", "content": "Hello"}]


class Walker:
    """A deployment whose gateway records what it enters."""

    def __init__(self, built: Deployment, tenant: Tenant, file: Path) -> None:
        self.deployment, self.tenant = built, tenant
        self._file = file
        self._idle: set[tuple[str, str]] = set()

    def walk(self, call: Callable[[], None]) -> Entered:
        """What each of two calls enters that an idle process does not; another one warms up."""
        call()
        self._settled()
        self._learn_idle()
        entered = self._entered_by(call) & self._entered_by(call)
        self._learn_idle()
        return {one for one in entered if one[2:] not in self._idle}

    def _entered_by(self, call: Callable[[], None]) -> Entered:
        self._taken()
        call()
        self._settled()
        return self._taken()

    def _settled(self) -> None:
        def no_hold() -> bool:
            return bool(self.deployment.query("SELECT count(*) AS n FROM holds")[0]["n"] == 0)

        until(no_hold, what="settlement")

    def _learn_idle(self) -> None:
        self._taken()
        for _ in range(2):
            before = self._beat()
            until(lambda before=before: self._beat() != before, what="a heartbeat")  # type: ignore[misc]
        self._idle |= {(file, name) for _, _, file, name in self._taken()}

    def _beat(self) -> Any:
        return self.deployment.query("SELECT max(heartbeat_at) AS at FROM processes")[0]["at"]

    def _taken(self) -> Entered:
        pid = self.deployment.gateway.popen.pid
        written = Path(f"{self._file}.{pid}")
        written.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR2)
        until(written.exists, what="the record")
        return {tuple(one) for one in json.loads(written.read_text(encoding="utf-8"))}


@pytest.fixture(scope="module")
def walker(postgres: PostgresForTests) -> Iterator[Walker]:
    with temporary_folder() as folder, postgres.database() as url:
        yield from _walker(url, folder)


def _walker(url: str, folder: Path) -> Iterator[Walker]:
    (folder / "sitecustomize.py").write_text(recorder.SITE, encoding="utf-8")
    environ = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", recorder.VARIABLE: str(folder / "walk")}
    settings = {
        **films.SETTINGS,
        "translations": ["messages_to_chat"],
        "models": [*films.SETTINGS["models"], pictures.picture("picture", "painter")],
        "channels": [
            *films.SETTINGS["channels"],
            {**films.SETTINGS["channels"][0], "id": "painter", "protocols": ["images"]},
        ],
    }
    with deployment(url, folder, is_funded=False, environ=environ, **settings) as built:
        tenant = built.tenant(nano_usd=1000 * NANO_PER_USD)
        imported(built, tenant, folder / "base")
        yield Walker(built, tenant, folder / "walk")


def chat(walker: Walker) -> None:
    body = {"model": "sim-model", "stream": True, "messages": QUESTION}
    reply = walker.tenant.client.send("POST", "/v1/chat/completions", body)
    assert reply.status == 200
    assert b"[DONE]" in reply.body


def messages(walker: Walker) -> None:
    body = {"model": "sim-model", "stream": True, "max_tokens": 50, "messages": QUESTION}
    reply = walker.tenant.client.send("POST", "/v1/messages", body)
    assert reply.status == 200
    assert b"message_stop" in reply.body


def image(walker: Walker) -> None:
    assert pictures.generate(walker.tenant.client).status == 200


def video(walker: Walker) -> None:
    assert films.submit(walker.tenant.client).status == 200


def search(walker: Walker) -> None:
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "search_wiki", "arguments": {"q": "dams"}},
    }
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    reply = walker.tenant.client.send("POST", "/mcp", call, headers=headers)
    assert reply.status == 200
    assert b"result" in reply.body


CALLS = {one.__name__: one for one in (chat, messages, image, video, search)}


@pytest.mark.parametrize("kind", CALLS)
def test_call_runs_downwards(walker: Walker, kind: str) -> None:
    entered = walker.walk(lambda: CALLS[kind](walker))
    assert entered
    back = sorted(f"{one} -> {two}" for one, two in _back_up(entered))
    assert len(back) <= CALLS_BACK_UP_MAX[kind], "\n".join([f"{len(back)} calls", *back])


def _back_up(entered: Entered) -> set[tuple[str, str]]:
    pairs = {(one[0], one[2]) for one in entered if one[0] and one[0] != one[2]}
    names = {file: module_of(Path(file)) for pair in pairs for file in pair}
    uses = {file: set(imports_of(Path(file))) for file in names}
    return {
        (names[one], names[two])
        for one, two in pairs
        if names[one] in uses[two] and names[two] not in uses[one]
    }
