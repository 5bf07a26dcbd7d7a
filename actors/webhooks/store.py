"""Webhooks and their deliveries in PostgreSQL, as the deliverer uses them: claim, take in, book.

Whatever a process writes names its claim: after another has taken a webhook over, nothing that the
first one still does to it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from actors.events.outbox import COLUMNS, Event
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.storable import to_json
from actors.webhooks.lanes import Wish

SQL = load("actors.webhooks", "webhooks.sql", {"columns": COLUMNS})


@dataclass(frozen=True, slots=True)
class Claim:
    """A webhook that a process has. Its secrets are sealed; the second one may be missing."""

    webhook_id: str
    number: int
    url: str
    is_enabled: bool
    secret: bytes
    previous_secret: bytes | None
    after_sequence: int


@dataclass(frozen=True, slots=True)
class Due:
    """A delivery to be attempted now, with how often it has been."""

    webhook_id: str
    claim: int
    is_first: bool
    attempts: int
    event: Event

    @property
    def sequence(self) -> int:
        """The number of its event."""
        return self.event.sequence


class End(Struct, frozen=True):
    """The end of an attempt. `pause` until the next one and `ago`, since it began, in seconds."""

    webhook_id: str
    claim: int
    sequence: int
    outcome: str
    status: str  # of the delivery: pending, delivered, dead
    pause: float | None
    ago: float


async def read_share(store: Statements) -> int:
    """Return how many webhooks a process has if all have about as many."""
    row = await store.fetch_one(SQL["count"])
    assert row is not None
    webhooks, processes = row
    return -(-int(webhooks) // max(1, int(processes)))


async def read_unclaimed(store: Statements) -> list[str]:
    """Return the webhooks that no living process has."""
    return [row[0] for row in await store.fetch_all(SQL["unclaimed"])]


async def claim(store: Statements, process_id: str, webhooks: Sequence[str]) -> int:
    """Claim those of these webhooks that no living process has; return how many."""
    return await store.execute(SQL["claim"], {"process": process_id, "webhooks": list(webhooks)})


async def read_claimed(store: Statements, process_id: str) -> list[Claim]:
    """Return the webhooks of a process as they are now."""
    found = []
    for webhook_id, number, url, is_enabled, secret, previous, after in await store.fetch_all(
        SQL["claimed"], (process_id,)
    ):
        found.append(
            Claim(
                webhook_id=webhook_id,
                number=number,
                url=url,
                is_enabled=is_enabled,
                secret=bytes(secret),
                previous_secret=None if previous is None else bytes(previous),
                after_sequence=after,
            )
        )
    return found


async def release(store: Statements, process_id: str) -> None:
    """Give back the webhooks of a process."""
    await store.execute(SQL["release"], (process_id,))


async def read_last(store: Statements) -> int:
    """Return the number of the last event."""
    row = await store.fetch_one(SQL["last"])
    assert row is not None
    return int(row[0])


async def take_in(
    store: Statements, process_id: str, webhook_id: str, number: int, *, read: int, queue: int
) -> int | None:
    """Take a webhook's next events; return up to where the outbox is read, None: the claim is lost.

    At most `read` events are read, and `queue` deliveries pending.
    """
    row = await store.fetch_one(
        SQL["take_in"],
        {
            "webhook": webhook_id,
            "process": process_id,
            "claim": number,
            "read": read,
            "queue": queue,
        },
    )
    assert row is not None
    return None if row[0] is None else int(row[0])


async def read_due(
    store: Statements, process_id: str, wishes: Mapping[tuple[str, int], Wish]
) -> list[Due]:
    """Return deliveries to be attempted now, as wished for by webhook and number of its claim."""
    wanted = [
        {
            "id": webhook_id,
            "claim": number,
            "firsts": wish.firsts,
            "laters": wish.laters,
            "known": wish.known,
        }
        for (webhook_id, number), wish in wishes.items()
    ]
    rows = await store.fetch_all(SQL["due"], {"process": process_id, "wanted": to_json(wanted)})
    return [Due(row[0], row[1], row[2], row[3], Event(*row[4:])) for row in rows]


async def book(
    store: Statements, process_id: str, ends: Sequence[End], *, failing_days: int
) -> list[tuple[str, str]]:
    """Book the ends of attempts; return the webhooks that were disabled by them, and why."""
    params = {"process": process_id, "ends": to_json(ends), "failing_days": failing_days}
    return [(row[0], row[1]) for row in await store.fetch_all(SQL["book"], params)]


async def read_standing(store: Statements) -> tuple[int, float]:
    """Return how many deliveries are pending, and how long the oldest unsent event has waited."""
    row = await store.fetch_one(SQL["standing"])
    assert row is not None
    return int(row[0]), float(row[1])


async def purge(store: Statements, most: int) -> int:
    """Delete old deliveries, of each webhook at most so many; return the most of one."""
    row = await store.fetch_one(SQL["purge"], (most,))
    assert row is not None
    return int(row[0])
