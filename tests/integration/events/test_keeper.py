"""What looks after the outbox: numbers, counts once, deletes, follows the configuration."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from actors.events.keeper import PURGE_SECONDS, EventKeeper, Keeping
from actors.store.database import Database
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock

DAYS = 3.0


def keeper(
    database: Database, metrics: Metrics, wants: Callable[[], bool] = lambda: False
) -> tuple[EventKeeper, FakeClock]:
    clock = FakeClock()
    made = EventKeeper(
        database=database,
        keeping=lambda: Keeping(days=DAYS, are_calls_wanted=wants()),
        clock=clock,
        metrics=metrics,
    )
    return made, clock


async def numbers(database: Database) -> list[int]:
    rows = await database.fetch_all("SELECT sequence FROM events ORDER BY 1")
    return [place for (place,) in rows]


async def readers(database: Database) -> list[str]:
    return [name for (name,) in await database.fetch_all("SELECT name FROM event_call_readers")]


async def write(database: Database, kind: str) -> None:
    await database.execute("SELECT event_write('acc_a', %s, '{}')", (kind,))


async def test_two_keepers_number_count_once_and_delete(database_url: str) -> None:
    first, second = CollectorRegistry(), CollectorRegistry()
    async with Database(database_url, size=2) as database:
        one, clock = keeper(database, Metrics(first))
        other, _ = keeper(database, Metrics(second))
        for kind in ("key.created", "key.created", "key.revoked"):
            await write(database, kind)
        await one.round()
        await other.round()
        assert await numbers(database) == [1, 2, 3]
        assert _count(first, "key.created") == 2
        assert _count(first, "key.revoked") == 1
        assert _count(second, "key.created") == 0
        await database.execute(
            "UPDATE events SET numbered_at = numbered_at - interval '3 days' WHERE sequence < 3"
        )
        await one.round()
        assert await numbers(database) == [1, 2, 3]  # a minute has not passed
        clock.advance(PURGE_SECONDS)
        await one.round()
        assert await numbers(database) == [3]


async def test_calls_are_wanted_as_the_configuration_says_and_webhooks_stay(
    database_url: str,
) -> None:
    wants = True
    async with Database(database_url, size=1) as database:
        await database.execute("INSERT INTO event_call_readers VALUES ('whk_a')")
        one, _ = keeper(database, Metrics(), lambda: wants)
        await one.round()
        assert sorted(await readers(database)) == ["configuration", "whk_a"]
        # Another host with another configuration is not overruled each round.
        await database.execute("DELETE FROM event_call_readers WHERE name = 'configuration'")
        await one.round()
        assert await readers(database) == ["whk_a"]
        wants = False
        await one.round()
        assert await readers(database) == ["whk_a"]


def _count(registry: CollectorRegistry, kind: str) -> float:
    return registry.get_sample_value("gw_events_total", {"type": kind}) or 0.0
