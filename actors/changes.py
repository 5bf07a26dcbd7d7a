"""Changes of keys and accounts: how gateways receive them, and how the sender confirms that.

The database itself pushes a change, in the transaction that makes it (triggers of the schema). A
command that must not return before the change is in force everywhere, such as the one that revokes
a key, asks afterwards: pushes arrive in the order of their commits, so a process that replies to
the question has received the change before it (reference 1.1: refused by the next request, in every
process).

A question may also request a report: data that only the process itself has, as text.

By the same order a process knows how much it has received: it sends itself an echo every second,
and once that has arrived, so has every change committed before it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from actors.clock import Clock
from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.queries import load
from metrics.logs import EventLog

SQL = load("actors", "changes.sql")

CHANGES_CHANNEL = "gw_changes"
HEARD_CHANNEL = "gw_heard"
QUESTION = "heard?"
REPORT_QUESTION = "report?"
# A notification has at most 8000 bytes, of which token, process and numbers need a hundred.
PART_CHARACTERS = 7000
# The limit of one process's report.
REPORT_CHARACTERS_MAX = 4 * 1024 * 1024
ECHO = "echo"
# A process without a heartbeat for so long is not waited for; the TTL of its caches applies. A busy
# one is waited for, because a change must be in force when its command ends (reference 1.1).
RECENT_SECONDS = 5.0
LOOK_SECONDS = 1.0
TIMEOUT_SECONDS = 30.0


class ChangeFeed:
    """Passes changes on, and replies to processes that ask whether they were received.

    `on_heard` gets an instant of the monotonic clock: all that was committed before has been
    received. `before_reply` returns when what was received is in force; `report` is in ASCII.
    """

    def __init__(
        self,
        *,
        database: Database,
        identity: ProcessIdentity,
        clock: Clock,
        on_change: Callable[[str], None],
        on_gap: Callable[[], None],
        on_heard: Callable[[float], None],
        before_reply: Callable[[], Awaitable[None]] | None = None,
        report: Callable[[], str] | None = None,
    ) -> None:
        self._database = database
        self._identity = identity
        self._clock = clock
        self._on_change = on_change
        self._on_gap = on_gap
        self._on_heard = on_heard
        self._before_reply = before_reply
        self._report = report
        self._questions: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self._log = EventLog("actors.changes")

    async def start(self) -> None:
        """Listen until the database is closed. Raises StoreUnavailable."""
        await self._database.listen(CHANGES_CHANNEL, self._take, self._on_gap)

    async def run(self) -> None:
        """Reply to questions forever."""
        while True:
            token, wants_report = await self._questions.get()
            name = f"{token} {self._identity.id}"
            try:
                if self._before_reply is not None:
                    await self._before_reply()
                parts = _parts(name, self._report()) if wants_report and self._report else [name]
                await self._database.fetch_one(SQL["answer"], (parts,))
            except StoreError as error:  # the asking process times out
                self._log.warning("question_unanswered", error=str(error))

    async def send(self, change: str) -> None:
        """Send a change that is in no row to every gateway, including this one, after all that were
        committed before. Raises StoreUnavailable.
        """
        await self._database.fetch_one(SQL["send"], (change,))

    async def send_echo(self) -> None:
        """Send an echo, which returns after all earlier changes; called every second.

        Raises StoreUnavailable.
        """
        await self.send(f"{ECHO} {self._identity.id} {self._clock.monotonic()!r}")

    def _take(self, payload: str) -> None:
        kind, _, rest = payload.partition(" ")
        if kind == QUESTION:
            self._questions.put_nowait((rest, False))
        elif kind == REPORT_QUESTION:
            self._questions.put_nowait((rest, True))
        elif kind == ECHO:
            process_id, _, sent_at = rest.partition(" ")
            if process_id == self._identity.id:
                self._on_heard(float(sent_at))
        else:
            self._on_change(payload)


async def heard_by_all(
    database: Database, *, token: str, timeout_seconds: float = TIMEOUT_SECONDS
) -> bool:
    """Wait until every live gateway has received earlier commits; False if one has not.

    `token` distinguishes this question from others. Raises StoreUnavailable.
    """
    silent = await _alive(database)
    if not silent:
        return True
    all_heard = asyncio.Event()

    def note(payload: str) -> None:
        replied, _, process_id = payload.partition(" ")
        if replied == token:
            silent.discard(process_id)
            if not silent:
                all_heard.set()

    listener = await database.listen(HEARD_CHANNEL, note, lambda: None)
    question = (f"{QUESTION} {token}",)
    try:
        await database.fetch_one(SQL["send"], question)
        async with asyncio.timeout(timeout_seconds):
            while silent:
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await all_heard.wait()
                except TimeoutError:
                    silent.intersection_update(await _alive(database))
                    if silent:
                        # It may not have been listening: it was starting, or had lost its
                        # connection.
                        await database.fetch_one(SQL["send"], question)
    except TimeoutError:
        return False
    finally:
        await listener.close()
    return True


async def reports_of_all(
    database: Database, *, token: str, timeout_seconds: float
) -> dict[str, str | None]:
    """Return the report of each live process by its id; None if none arrived in time.

    Raises StoreUnavailable.
    """
    found: dict[str, str | None] = dict.fromkeys(await _alive(database))
    parts: dict[str, list[str]] = {}
    missing = set(found)
    all_here = asyncio.Event()

    def note(payload: str) -> None:
        replied, _, rest = payload.partition(" ")
        process_id, _, rest = rest.partition(" ")
        if replied != token or process_id not in missing:
            return
        count, _, rest = rest.partition(" ")
        part = rest.partition(" ")[2]
        if not count.isdigit() or int(count) * PART_CHARACTERS > REPORT_CHARACTERS_MAX:
            missing.discard(process_id)  # of an earlier release, or too long
        else:
            own = parts.setdefault(process_id, [])
            own.append(part)
            if len(own) == int(count):
                found[process_id] = "".join(own)
                missing.discard(process_id)
        if not missing:
            all_here.set()

    if not found:
        return found
    listener = await database.listen(HEARD_CHANNEL, note, lambda: None)
    try:
        await database.fetch_one(SQL["send"], (f"{REPORT_QUESTION} {token}",))
        async with asyncio.timeout(timeout_seconds):
            await all_here.wait()
    except TimeoutError:
        return found
    finally:
        await listener.close()
    return found


def _parts(name: str, report: str) -> list[str]:
    """Return the notifications of a report, in order."""
    starts = range(0, max(1, len(report)), PART_CHARACTERS)
    # Each has a number: PostgreSQL drops duplicates.
    return [
        f"{name} {len(starts)} {number} {report[at : at + PART_CHARACTERS]}"
        for number, at in enumerate(starts)
    ]


async def _alive(database: Database) -> set[str]:
    """Return the processes with a recent heartbeat."""
    return {row[0] for row in await database.fetch_all(SQL["alive"], (RECENT_SECONDS,))}
