"""`gw tasks` over a real database, while no gateway runs."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from uuid import UUID

import pytest

from actors.jobs import store
from actors.store.database import Database
from actors.wallet.ledger import read_balance
from actors.wallet.quarantine import Quarantined, keep
from actors.wallet.verify import verify
from tests.integration.actors.process import process, rows_of
from tests.integration.cli.command import Gw
from tests.integration.money import ACCOUNT, open_account
from tests.support.jobs import acceptance, new_job
from tests.support.ledger_values import outcome

USD = 1_000_000_000
UNKNOWN = "vid_" + "0" * 32


async def begin(url: str, *job_ids: str, is_accepted: bool = True, **message: Any) -> None:
    """Jobs of an account with 10 USD, each of which holds one."""
    async with Database(url) as database, process(url) as mine:
        if await read_balance(database, ACCOUNT) is None:
            await open_account(database, 10 * USD)
        for job_id in job_ids:
            facts = await mine.hold(USD, job_id=job_id, job=new_job(**message))
            if is_accepted:
                accepted = acceptance(f"up {job_id}", channel_id="a")
                await store.accept(database, facts, accepted, pause_seconds=60.0)


async def quarantine(url: str, job_id: str) -> UUID:
    """Refuse the settlement of a job; return its call."""
    async with Database(url) as database:
        job = await store.read_open(database, job_id)
        assert job is not None
        kept = Quarantined(facts=job.facts, outcome=outcome(5), error="so")
        await keep(database, kept, None)
        return job.facts.call_id


@contextmanager
def upstream(request: list[str]) -> Iterator[str]:
    """A server that notes what it is asked and takes it back; yields its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_DELETE(self) -> None:
            request.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: Any) -> None:
            """Nothing to stderr."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_tasks_are_listed_newest_first_and_shown_with_their_upstream(
    gw: Gw, database_url: str
) -> None:
    asyncio.run(begin(database_url, "vid_1"))
    asyncio.run(begin(database_url, "mus_1", kind="music", price={"per_generation": "1"}))
    asyncio.run(begin(database_url, "vid_2", is_accepted=False))

    def listed(*options: str) -> list[str]:
        return [task["id"] for task in gw.run_json("tasks", "list", *options)["tasks"]]

    assert listed() == ["vid_2", "mus_1", "vid_1"]
    assert listed("--kind", "video") == ["vid_2", "vid_1"]
    assert listed("--status", "queued") == ["mus_1", "vid_1"]
    assert listed("--status", "submitting", "--account", ACCOUNT) == ["vid_2"]
    assert listed("--account", "acct_none") == []
    assert listed("--limit", "1") == ["vid_2"]
    shown = gw.run_json("tasks", "show", "vid_1")
    assert gw.run_json("tasks", "list", "--limit", "3")["tasks"][2] == shown
    assert {
        "id": "vid_1",
        "kind": "video",
        "status": "queued",
        "account": ACCOUNT,
        "channel": "a",
        "upstream_id": "up vid_1",
        "model": "m",
    }.items() <= shown.items()
    assert "up vid_1" in gw.run("tasks", "show", "vid_1").out
    assert gw.run("tasks", "list").out.count("\n") == 4


def test_cancelled_task_is_refunded_in_full_and_cancelled_at_its_upstream(
    gw: Gw, database_url: str
) -> None:
    request: list[str] = []
    asyncio.run(begin(database_url, "vid_1"))
    with upstream(request) as address:
        text = gw.config.read_text().replace("https://a.example", address)
        gw.config.write_text(text.replace("[chat]", "[chat, videos]"))
        assert gw.run_json("tasks", "cancel", "vid_1") == {
            "id": "vid_1",
            "status": "cancelled",
            "refunded_usd": "1",
        }
    assert request == ["/v1/videos/generations/up%20vid_1 Bearer k"]
    assert gw.run_json("tasks", "show", "vid_1")["status"] == "cancelled"

    async def proved() -> None:
        async with Database(database_url) as database:
            assert await read_balance(database, ACCOUNT) == (10 * USD, 0)
            job = await store.read(database, "vid_1", account_id=ACCOUNT)
            assert job is not None
            assert await rows_of(database, job.call_id) == [("interrupted", "task_cancelled", 0)]
            assert (await verify(database, with_costs=True)).faults == []

    asyncio.run(proved())


@pytest.mark.parametrize(
    ("kind", "price"), [("speech", {"per_character": "1"}), ("avatar", {"per_call": "1"})]
)
def test_speech_and_avatars_so_cancelled_have_failed(
    kind: str, price: dict[str, str], gw: Gw, database_url: str
) -> None:
    asyncio.run(begin(database_url, "tts_1", kind=kind, price=price))
    gw.config.write_text(gw.config.read_text().replace("id: a,", "id: b,").replace("[a]", "[b]"))
    assert gw.run_json("tasks", "cancel", "tts_1")["status"] == "cancelled"  # its channel is gone
    shown = gw.run_json("tasks", "show", "tts_1")
    assert (shown["status"], shown["error_code"]) == ("failed", "task_cancelled")


def test_task_that_has_ended_is_unknown_or_is_being_submitted_is_not_cancelled(
    gw: Gw, database_url: str
) -> None:
    asyncio.run(begin(database_url, "vid_1"))
    asyncio.run(begin(database_url, "vid_2", is_accepted=False))
    gw.config.write_text(gw.config.read_text().replace("a.example", "127.0.0.1:1"))
    gw.run_json("tasks", "cancel", "vid_1")
    assert gw.refuses("tasks", "cancel", "vid_1")[0] == "task_finished"
    assert gw.refuses("tasks", "cancel", "vid_2")[0] == "task_submitting"
    assert gw.refuses("tasks", "cancel", UNKNOWN) == (
        "task_not_found",
        f"there is no task {UNKNOWN}",
    )
    assert gw.refuses("tasks", "show", UNKNOWN)[0] == "task_not_found"
    asyncio.run(begin(database_url, "vid_3"))
    call_id = asyncio.run(quarantine(database_url, "vid_3"))
    code, message = gw.refuses("tasks", "cancel", "vid_3")
    assert (code, f"--book {call_id}`" in message) == ("task_quarantined", True)
    assert gw.run_json("tasks", "show", "vid_2")["status"] == "submitting"
