"""Webhooks as operators keep them: how many, replays that fit, secrets sealed anew."""

from typing import Any

import pytest

from actors.store.database import Database
from gw.keys.sealing import KeySealer, WrongSecret
from gw.keys.secret import Secret
from gw.webhooks import table
from gw.webhooks.webhook import WEBHOOKS_MAX
from tests.support.webhooks import SEALER, is_counted, made, rows, write

URL = "https://example.com/hook"
NEW = "the secret that comes after"


async def test_there_are_a_hundred_at_most(database_url: str) -> None:
    async with Database(database_url) as database:
        ids = [(await made(database, URL))[0] for _ in range(WEBHOOKS_MAX)]
        with pytest.raises(table.TooManyWebhooks):
            await made(database, URL)
        await table.delete(database, ids[0])
        await made(database, URL)
        with pytest.raises(table.UnknownWebhook):
            await table.show(database, ids[0])


async def test_a_replay_is_all_or_nothing_and_fits_into_the_queue(database_url: str) -> None:
    async with Database(database_url) as database:
        webhook_id, _ = await made(database, URL, types=["key.*"])
        await write(database, "key.created", count=5)
        await write(database, "task.ended", count=5)
        await database.execute("SELECT events_number(100)")
        ((first, since, until),) = await database.fetch_all(
            "SELECT min(id), min(at), max(at) + interval '1 second' FROM events"
            " WHERE type = 'key.created'"
        )
        span: dict[str, Any] = {"event": None, "since": since, "until": until}
        with pytest.raises(table.QueueFull):
            await table.replay(database, webhook_id, **span, queue=4)
        assert await rows(database, webhook_id) == []
        assert await table.replay(database, webhook_id, **span, queue=5) == 5
        assert await table.replay(database, webhook_id, **span, queue=5) == 0  # they are pending
        assert (await table.show(database, webhook_id)).pending == 5
        await database.execute(
            "UPDATE webhook_deliveries SET status = CASE WHEN event_id = %s THEN 'delivered'"
            " ELSE 'dead' END",
            (first,),
        )
        await database.execute("UPDATE webhooks SET pending = 0, dead = 4")
        dead: dict[str, Any] = {"event": None, "since": None, "until": None}
        assert await table.replay(database, webhook_id, **dead, queue=100) == 4
        only: dict[str, Any] = {"event": first, "since": None, "until": None}
        assert await table.replay(database, webhook_id, **only, queue=100) == 1
        assert {row["status"] for row in await rows(database, webhook_id)} == {"pending"}
        assert await is_counted(database)
        unknown: dict[str, Any] = {"event": "evt_none", "since": None, "until": None}
        assert await table.replay(database, webhook_id, **unknown, queue=100) == 0
        with pytest.raises(table.UnknownWebhook):
            await table.replay(database, "whk_none", **dead, queue=100)


async def test_secrets_are_sealed_anew_under_the_next_one(database_url: str) -> None:
    async with Database(database_url) as database:
        webhook_id, old = await made(database, URL)
        await made(database, URL)
        await table.rotate(database, webhook_id, secret="whsec_bmV3", keep_hours=1, sealer=SEALER)
        both = KeySealer(Secret(NEW, "a secret for tests only"))
        assert await table.reseal(database, both) == (2, 0)
        assert await table.reseal(database, both) == (0, 2)
        after = KeySealer(Secret(NEW))
        assert await table.read_secrets(database, webhook_id, after) == (URL, ["whsec_bmV3", old])
        with pytest.raises(WrongSecret):
            await table.read_secrets(database, webhook_id, SEALER)
