"""Webhooks as operators use them, and what receivers get: also when processes are killed."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.processes import CommandFailed
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until
from tests.support.receiver import Answer, Receiver

pytestmark = pytest.mark.long

SETTINGS: dict[str, Any] = {
    "webhooks": {"allow": ["127.0.0.0/8"], "retry_seconds": [0.3, 0.3], "timeout": 5},
}
COUNT = 2


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as made:
        yield made


@pytest.fixture
def h(database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment whose gateway is two processes."""
    with deployment(database_url, tmp_path, processes=COUNT, **SETTINGS) as built:
        yield built


def workers(h: Deployment) -> set[int]:
    """The process ids of the workers."""
    children = Path(f"/proc/{h.gateway.popen.pid}/task/{h.gateway.popen.pid}/children")
    return {int(pid) for pid in children.read_text(encoding="ascii").split()}


def make_keys(h: Deployment, count: int) -> None:
    for number in range(count):
        h.gw("key", "create", "--account", h.account, "--name", f"key {number}")


def write(h: Deployment, count: int) -> None:
    """Events that nothing else has caused."""
    statement = "SELECT event_write('acct_x', 'key.created', '{}') FROM generate_series(1, %s)"
    with closing(psycopg2.connect(h.settings["database_url"])) as connection:
        connection.cursor().execute(statement, (count,))
        connection.commit()


def are_ended(h: Deployment, webhook_id: str, count: int) -> None:
    def have() -> bool:
        rows = h.query("SELECT status FROM webhook_deliveries WHERE webhook_id = %s", webhook_id)
        return len(rows) == count and all(row["status"] != "pending" for row in rows)

    until(have, what=f"{count} deliveries that have ended")


def test_what_happens_is_sent_signed_and_listed(h: Deployment, receiver: Receiver) -> None:
    account = h.account
    made = h.gw("webhook", "create", "--url", receiver.url, "--type", "key.*")
    assert made["secret"].startswith("whsec_")
    webhook_id, secret = made["id"], made.pop("secret")
    assert made == {
        "id": webhook_id,
        "url": receiver.url,
        "types": ["key.*"],
        "account_id": None,
        "enabled": True,
        "created_at": made["created_at"],
        "pending": 0,
        "dead": 0,
    }
    assert h.gw("webhook", "show", webhook_id) == made
    assert h.gw("webhook", "list") == {"webhooks": [made]}
    began = datetime.now(UTC)
    key = h.gw("key", "create", "--account", account, "--name", "seen")
    until(lambda: len(receiver.received) == 1, what="the event of a key")
    (one,) = receiver.received
    assert one.is_signed_by(secret)
    event = one.event
    assert (event["type"], event["account_id"]) == ("key.created", account)
    assert event["data"]["key_id"] == key["id"]
    assert key["key"] not in one.body.decode()
    are_ended(h, webhook_id, 1)
    (delivery,) = h.gw("webhook", "deliveries", webhook_id, "--status", "delivered")["deliveries"]
    assert delivery == {
        "event_id": one.id,
        "sequence": event["sequence"],
        "type": "key.created",
        "status": "delivered",
        "attempts": 1,
        "last_attempt_at": delivery["last_attempt_at"],
        "last_outcome": "204",
        "next_attempt_at": None,
    }
    assert h.gw("webhook", "deliveries", webhook_id, "--status", "dead")["deliveries"] == []

    # Dead ones are kept, counted, and sent again.
    receiver.answer = lambda _: Answer(500)
    make_keys(h, 1)
    until(lambda: h.gw("webhook", "show", webhook_id)["dead"] == 1, what="a dead delivery")
    receiver.answer = lambda _: Answer(200)
    assert h.gw("webhook", "replay", webhook_id, "--dead") == {"replayed": 1}
    are_ended(h, webhook_id, 2)
    assert h.gw("webhook", "show", webhook_id)["dead"] == 0
    assert h.gw("webhook", "replay", webhook_id, "--event", one.id) == {"replayed": 1}
    until(lambda: receiver.ids.count(one.id) == 2, what="the event again")
    are_ended(h, webhook_id, 2)
    span = ("--from", began.isoformat(), "--to", datetime.now(UTC).isoformat())
    assert h.gw("webhook", "replay", webhook_id, *span) == {"replayed": 2}
    until(lambda: receiver.ids.count(one.id) == 3, what="the event a third time")

    # A test is signed, by both secrets while they are exchanged, and is in no list.
    rotated = h.gw("webhook", "rotate", webhook_id)
    sent = h.gw("webhook", "test", webhook_id)
    assert (sent["type"], sent["status"], sent["last_outcome"]) == (
        "webhook.test",
        "delivered",
        "200",
    )
    last = receiver.received[-1]
    assert (last.event["type"], last.event["data"]) == ("webhook.test", {})
    assert last.is_signed_by(secret)
    assert last.is_signed_by(rotated["secret"])
    assert len(h.gw("webhook", "deliveries", webhook_id)["deliveries"]) == 2

    # What happens while it is disabled is sent when it is enabled.
    assert h.gw("webhook", "disable", webhook_id)["enabled"] is False
    make_keys(h, 2)
    seen = len(receiver.received)
    assert h.gw("webhook", "enable", webhook_id)["enabled"] is True
    are_ended(h, webhook_id, 4)
    assert len(receiver.received) == seen + 2
    assert h.gw("webhook", "delete", webhook_id)["id"] == webhook_id
    with pytest.raises(CommandFailed):
        h.gw("webhook", "show", webhook_id)
    trail = h.gw("admin", "audit", "--object", webhook_id)["changes"]
    assert {one["action"] for one in trail} == {
        f"webhook.{verb}" for verb in ("create", "replay", "rotate", "test", "set", "delete")
    }
    assert secret not in str(trail)


def test_kill_amid_deliveries_loses_none_and_they_go_on(h: Deployment, receiver: Receiver) -> None:
    receiver.answer = lambda _: Answer(200, seconds=0.2)
    webhook_id = h.gw("webhook", "create", "--url", receiver.url)["id"]
    total = 200
    write(h, total)
    until(lambda: len(receiver.received) >= 16, what="the first deliveries")
    # Whichever has it: both are killed, one after the other.
    for pid in sorted(workers(h)):
        os.kill(pid, signal.SIGKILL)
        seen = len(receiver.received) + 8
        until(lambda seen=seen: len(receiver.received) > seen, what="that they go on")  # type: ignore[misc]
        until(lambda: len(workers(h)) == COUNT, what="another worker")
    are_ended(h, webhook_id, total)
    rows = h.query("SELECT event_id, status, attempts FROM webhook_deliveries")
    assert {row["status"] for row in rows} == {"delivered"}
    # At least once; again at most what was under way when its process was killed.
    assert set(receiver.ids) == {row["event_id"] for row in rows}
    assert len(receiver.received) <= total + 8 * COUNT
    assert receiver.most_under_way <= 8 * (COUNT + 1)
    page = Admin(h.gateway.admin_url).page()
    assert sum(page.series("gw_webhook_deliveries_total").values()) > 0


def test_commands_refuse_what_is_wrong(h: Deployment, receiver: Receiver) -> None:
    for arguments in (
        ("create", "--url", "http://example.com/"),
        ("create", "--url", "https://10.0.0.1/"),
        ("create", "--url", "https://user@example.com/"),
        ("create", "--url", "https://example.com/", "--type", "key.creatd"),
        ("create", "--url", "https://example.com/" + "a" * 2048),
        ("replay", "whk_x"),
        ("replay", "whk_x", "--dead", "--event", "evt_x"),
        ("replay", "whk_x", "--from", "2027-01-01T00:00:00Z"),
        ("rotate", "whk_x", "--keep-hours", "-1"),
        ("set", "whk_x"),
    ):
        with pytest.raises(CommandFailed) as failed:
            h.gw("webhook", *arguments)
        assert failed.value.code == 2, arguments
    for arguments, code in (
        (("show", "whk_x"), "webhook_not_found"),
        (("test", "whk_x"), "webhook_not_found"),
        (("deliveries", "whk_x"), "webhook_not_found"),
        (("replay", "whk_x", "--dead"), "webhook_not_found"),
        (("create", "--url", receiver.url, "--account", "acct_x"), "account_not_found"),
    ):
        with pytest.raises(CommandFailed) as failed:
            h.gw("webhook", *arguments)
        assert failed.value.code == 1
        assert code in str(failed.value)
