"""Webhooks in a database, and processes that send to them, for tests."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import ujson
from prometheus_client import CollectorRegistry

from actors import process
from actors.clock import SystemClock
from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.webhooks.deliverer import Deliverer
from actors.webhooks.nudges import Nudges
from actors.webhooks.settings import Settings
from actors.webhooks.signature import new_secret
from actors.webhooks.targets import Targets
from gw.admin.webhooks import body_of
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from gw.webhooks import table
from gw.webhooks.webhook import NewWebhook
from metrics.prometheus import Metrics

SEALER = KeySealer(Secret("a secret for tests only"))
SETTINGS = Settings(
    targets=Targets.of(["127.0.0.0/8"]), pauses=(0.05, 0.05), seconds=5.0, queue=1000
)


async def made(database: Database, url: str, **members: Any) -> tuple[str, str]:
    """A new webhook, and its secret."""
    secret = new_secret()
    async with database.transaction() as session:
        new = NewWebhook(url=url, **members)
        return await table.create(session, new, secret=secret, sealer=SEALER), secret


async def write(
    database: Database,
    kind: str,
    data: Mapping[str, Any] | None = None,
    *,
    account: str = "acct_a",
    count: int = 1,
) -> None:
    """Write events of one kind."""
    await database.execute(
        "SELECT event_write(%s, %s, %s::json) FROM generate_series(1, %s)",
        (account, kind, ujson.dumps(data or {}), count),
    )


async def identity_of(database: Database) -> ProcessIdentity:
    """A process that is registered, and confirmed for good."""
    made = ProcessIdentity(f"proc_{uuid4().hex[:20]}", "elsewhere", "boot", 1)
    await process.register(database, made)
    made.confirmed_at = float("inf")
    return made


class Sending:
    """A process that sends. `stop` kills it without a last word; `end` lets it leave."""

    def __init__(self, database: Database, identity: ProcessIdentity, settings: Settings) -> None:
        self.registry = CollectorRegistry()
        self.identity = identity
        self.nudges = Nudges()
        self.settings = settings
        self.deliverer = Deliverer(
            database=database,
            identity=identity,
            settings=lambda: self.settings,
            unseal=partial(table.unsealing, SEALER),
            encode=partial(body_of, show_call=dict),
            chance=lambda: 0.5,
            nudges=self.nudges,
            clock=SystemClock(),
            metrics=Metrics(self.registry),
        )
        self._task = asyncio.create_task(self.deliverer.run())

    def count(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.registry.get_sample_value(name, labels) or 0.0

    async def end(self) -> None:
        """Leave in order."""
        self._task.cancel()
        await asyncio.wait([self._task])


@asynccontextmanager
async def sending(database: Database, settings: Settings = SETTINGS) -> AsyncIterator[Sending]:
    """A process that sends until the end of the block."""
    one = Sending(database, await identity_of(database), settings)
    try:
        yield one
    finally:
        await one.end()


async def rows(database: Database, webhook_id: str) -> Sequence[Mapping[str, Any]]:
    """The deliveries of a webhook, the oldest event first."""
    names = ("sequence", "event_id", "type", "status", "attempts", "last_outcome")
    found = await database.fetch_all(
        f"SELECT {', '.join(names)} FROM webhook_deliveries WHERE webhook_id = %s ORDER BY 1",
        (webhook_id,),
    )
    return [dict(zip(names, row, strict=True)) for row in found]


async def statuses(database: Database, webhook_id: str) -> list[str]:
    """Those of its deliveries."""
    return [row["status"] for row in await rows(database, webhook_id)]


async def is_counted(database: Database) -> bool:
    """Whether the counters of every webhook are what is counted."""
    found = await database.fetch_all(
        "SELECT w.pending, w.dead, count(*) FILTER (WHERE d.status = 'pending'),"
        " count(*) FILTER (WHERE d.status = 'dead')"
        " FROM webhooks w LEFT JOIN webhook_deliveries d ON d.webhook_id = w.id GROUP BY w.id"
    )
    return all(row[:2] == row[2:] for row in found)
