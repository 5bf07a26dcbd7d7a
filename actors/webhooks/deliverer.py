"""The actor of a process that sends events to the webhooks it has claimed, one process each.

A claim ends when its process leaves, or is declared dead (`actors/recovery.py`): never by age
alone. Under it events are taken from the outbox into deliveries, attempted in memory, and the ends
of attempts are booked together. What a killed process had begun is still pending, and the next one
begins it again.

A process that others may have declared dead, since no beat has confirmed it for a while, sends
nothing more and drops what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

from actors.actor import Actor
from actors.clock import Clock
from actors.events import outbox
from actors.events.outbox import Event
from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.wallet.leases import CONFIRMED_SECONDS
from actors.webhooks import retries, store
from actors.webhooks.lanes import Lanes
from actors.webhooks.nudges import Nudges
from actors.webhooks.retries import Outcome
from actors.webhooks.sender import Letter, Sender
from actors.webhooks.settings import Settings
from actors.webhooks.store import Claim, Due, End
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# Longest pause between rounds while something is under way, and without anything.
TICK_SECONDS = 0.25
IDLE_SECONDS = 1.0
# Longest pause while the process has no webhook.
QUIET_SECONDS = 5.0
# Shortest pause: the ends of attempts are booked together.
GATHER_SECONDS = 0.05
# Pause while the database is unreachable.
BACKOFF_SECONDS = 1.0
# Claims, and what operators changed, are read at least so often.
LOOK_SECONDS = 2.0
# Webhooks beyond a process's share, which nobody has claimed for so long, are claimed too.
LEFT_SECONDS = 5.0
# Events of the outbox that are read in one step.
READ_MAX = 2000
# How long a first attempt waits for the connection of the one before it, and then for its end: so
# that what is sent in order also arrives so, where receivers read two connections at once.
IN_TURN_SECONDS = 1.0
APART_SECONDS = 0.005
# How long attempts under way may end after the process has been told to stop.
GRACE_SECONDS = 3.0
# Interval of reading what is pending in all, and of deleting old deliveries.
COUNT_SECONDS = 15.0
PURGE_SECONDS = 60.0
PURGED_MAX = 5000
# After so many days of failing attempts a webhook of which events die is disabled.
FAILING_DAYS = 5


@dataclass(slots=True)
class Endpoint:
    """A claimed webhook. `last` is the first attempt that was begun last."""

    claim: Claim
    sender: Sender | None
    settings: Settings
    lanes: Lanes[Due] = field(default_factory=Lanes)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    last: Letter | None = None

    def is_still(self, claim: Claim, settings: Settings) -> bool:
        """Whether what is sent, and where to, is unchanged."""
        mine = (self.claim.url, self.claim.secret, self.claim.previous_secret, self.settings)
        return mine == (claim.url, claim.secret, claim.previous_secret, settings)


class Deliverer(Actor[End]):
    """Claims, sends and books, until it is stopped."""

    kind: ClassVar[str] = "webhooks"

    def __init__(
        self,
        *,
        database: Database,
        identity: ProcessIdentity,
        settings: Callable[[], Settings],
        unseal: Callable[[str, bytes], str | None],
        encode: Callable[[Event], bytes],
        chance: Callable[[], float],
        nudges: Nudges,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        """`unseal` returns the secret of a webhook, None if it cannot be opened; `encode` the body
        of an event. `nudges` note new events and changed webhooks.
        """
        super().__init__(clock=clock, metrics=metrics)
        self.log = EventLog("actors.webhooks")
        self._database = database
        self._identity = identity
        self._settings = settings
        self._unseal = unseal
        self._encode = encode
        self._chance = chance
        self._nudges = nudges
        self._process_id = ""  # the one that the endpoints are claimed under
        self._endpoints: dict[str, Endpoint] = {}
        self._unbooked: list[End] = []
        self._left: dict[str, float] = {}  # unclaimed webhooks, and when each was first seen
        self._look_at = self._read_at = float("-inf")
        self._count_at = self._purge_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Deliverer {len(self._endpoints)} webhooks {len(self._unbooked)} unbooked>"

    async def run(self) -> None:
        """Work until cancelled; then attempts under way may end, and the webhooks are given back.

        Those that did not end are made again by whoever claims their webhook.
        """
        watch = asyncio.create_task(self._watch(), name="webhooks_watch")
        try:
            while True:
                try:
                    await self._round()
                except StoreError as error:
                    self.log.warning("webhooks_postponed", error=str(error))
                    await self.clock.sleep(BACKOFF_SECONDS)
                await self._until_next()
        finally:
            watch.cancel()
            await self._leave()

    @property
    def _is_confirmed(self) -> bool:
        """Whether no other process can have declared this one dead."""
        age = self.clock.monotonic() - self._identity.confirmed_at
        return age <= CONFIRMED_SECONDS and self._identity.id == self._process_id

    async def _watch(self) -> None:
        """Drop what is under way as soon as others may make it, also while a statement hangs."""
        while True:
            await self.clock.sleep(BACKOFF_SECONDS)
            if self._endpoints and not self._is_confirmed:
                self.log.warning("webhooks_dropped", count=len(self._endpoints))
                await self._drop_all()

    async def _drop_all(self) -> None:
        for webhook_id in list(self._endpoints):
            await self._drop(webhook_id)

    async def _round(self) -> None:
        if len(self.mailbox):
            self._unbooked += [one.message for one in await self.mailbox.take_all()]
        if self._unbooked:
            await self._book()
        now = self.clock.monotonic()
        if self._nudges.take_changed() or now - self._look_at >= LOOK_SECONDS:
            self._look_at = float("-inf")  # it is looked at again if this fails
            await self._look()
            self._look_at = now
        if now - self._count_at >= COUNT_SECONDS:
            pending, lag_seconds = await store.read_standing(self._database)
            self.metrics.webhooks.standing(pending=pending, lag_seconds=lag_seconds)
            self._count_at = now
        if now - self._purge_at >= PURGE_SECONDS:
            purged = await store.purge(self._database, PURGED_MAX)
            if purged < PURGED_MAX:  # else there is more
                self._purge_at = now
        if self._endpoints and self._is_confirmed:
            if self._nudges.take_written() or now - self._read_at >= IDLE_SECONDS:
                self._read_at = float("-inf")
                await self._take_in()
                self._read_at = now
            await self._load()
            self._begin()

    async def _until_next(self) -> None:
        """Wait for the next round: a moment, then until something has happened."""
        await self.clock.sleep(GATHER_SECONDS)
        if len(self.mailbox):
            return
        is_idle = all(one.lanes.is_empty for one in self._endpoints.values())
        seconds = IDLE_SECONDS if is_idle else TICK_SECONDS
        await self._nudges.wait(seconds if self._endpoints else QUIET_SECONDS)

    # Claims

    async def _look(self) -> None:
        """Read which webhooks this process has, as they are now, and claim some of the others."""
        process_id = self._identity.id
        if process_id != self._process_id:
            await self._drop_all()
            self._process_id = process_id
        claimed = {
            one.webhook_id: one for one in await store.read_claimed(self._database, process_id)
        }
        if await self._claim_more(len(claimed)):
            found = await store.read_claimed(self._database, process_id)
            claimed = {one.webhook_id: one for one in found}
        for webhook_id in [one for one in self._endpoints if one not in claimed]:
            await self._drop(webhook_id)
        settings = self._settings()
        for claim in claimed.values():
            await self._renew(claim, settings)

    async def _claim_more(self, count: int) -> bool:
        """Claim webhooks up to this process's share, and those that are left over."""
        unclaimed = await store.read_unclaimed(self._database)
        now = self.clock.monotonic()
        self._left = {one: self._left.get(one, now) for one in unclaimed}
        if not unclaimed:
            return False
        room = max(0, await store.read_share(self._database) - count)
        left = [one for one in unclaimed[room:] if now - self._left[one] >= LEFT_SECONDS]
        wanted = unclaimed[:room] + left
        if not wanted:
            return False
        return await store.claim(self._database, self._process_id, wanted) > 0

    async def _renew(self, claim: Claim, settings: Settings) -> None:
        """Put a claimed webhook as it is now in the place of what was known of it."""
        known = self._endpoints.get(claim.webhook_id)
        if known is not None and known.claim.number != claim.number:
            await self._drop(claim.webhook_id)
            known = None
        if known is not None and known.is_still(claim, settings):
            after = max(claim.after_sequence, known.claim.after_sequence)
            known.claim = replace(claim, after_sequence=after)
        else:
            sender = self._sender(claim, settings)
            if known is None:
                self._endpoints[claim.webhook_id] = Endpoint(claim, sender, settings)
            else:  # attempts under way end where they were begun
                await self._retire(known)
                known.claim, known.sender, known.settings = claim, sender, settings
        if not claim.is_enabled:
            self._endpoints[claim.webhook_id].lanes.forget_waiting()

    def _sender(self, claim: Claim, settings: Settings) -> Sender | None:
        secrets = [
            self._unseal(claim.webhook_id, sealed)
            for sealed in (claim.secret, claim.previous_secret)
            if sealed is not None
        ]
        opened = [one for one in secrets if one is not None]
        if len(opened) < len(secrets):
            self.log.error("webhook_secret_unreadable", webhook=claim.webhook_id)
            return None
        return Sender(
            claim.url,
            opened,
            targets=settings.targets,
            seconds=settings.seconds,
            clock=self.clock,
        )

    async def _retire(self, endpoint: Endpoint) -> None:
        """Close a sender's connections once the attempts over them have ended."""
        sender, tasks = endpoint.sender, list(endpoint.tasks)
        if sender is None:
            return
        if not tasks:
            await sender.close()
            return

        async def close() -> None:
            await asyncio.wait(tasks)
            await sender.close()

        task = asyncio.create_task(close(), name="webhook_sender_closes")
        endpoint.tasks.add(task)
        task.add_done_callback(endpoint.tasks.discard)

    async def _drop(self, webhook_id: str) -> None:
        """Stop sending to a webhook: it is gone, or another process has it."""
        endpoint = self._endpoints.pop(webhook_id, None)
        if endpoint is None:
            return
        for task in list(endpoint.tasks):
            task.cancel()
        if endpoint.tasks:
            await asyncio.wait(list(endpoint.tasks))
        if endpoint.sender is not None:
            await endpoint.sender.close()

    async def _leave(self) -> None:
        """Let attempts under way end for a moment, book them, and give the webhooks back."""
        tasks = [task for one in self._endpoints.values() for task in one.tasks]
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)
        await self._drop_all()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                if len(self.mailbox):
                    self._unbooked += [one.message for one in await self.mailbox.take_all()]
                if self._unbooked:
                    await self._book()
                await store.release(self._database, self._process_id)
        except (StoreError, TimeoutError) as error:
            # The claims end with the process, and what was not booked is sent again.
            self.log.warning("webhooks_postponed", error=str(error))

    # Events

    async def _take_in(self) -> None:
        """Number what was written to the outbox, and take in what is new for each webhook."""
        await outbox.number(self._database)
        last = await store.read_last(self._database)
        for endpoint in list(self._endpoints.values()):
            claim = endpoint.claim
            if not claim.is_enabled or claim.after_sequence >= last:
                continue
            read_to = await store.take_in(
                self._database,
                self._process_id,
                claim.webhook_id,
                claim.number,
                read=READ_MAX,
                queue=endpoint.settings.queue,
            )
            if read_to is None:  # changed meanwhile, which the next look finds
                self._nudges.changed()
            elif read_to > claim.after_sequence:
                endpoint.claim = replace(claim, after_sequence=read_to)
                if read_to < last:
                    self._nudges.written()

    async def _load(self) -> None:
        """Load deliveries for the places that are free or will soon be."""
        wishes = {}
        for endpoint in self._endpoints.values():
            if endpoint.claim.is_enabled and endpoint.sender is not None:
                wish = endpoint.lanes.wish()
                if wish.firsts or wish.laters:
                    wishes[endpoint.claim.webhook_id, endpoint.claim.number] = wish
        if not wishes:
            return
        for due in await store.read_due(self._database, self._process_id, wishes):
            found = self._endpoints.get(due.webhook_id)
            if found is not None and found.claim.number == due.claim:
                found.lanes.add(due)

    def _begin(self) -> None:
        """Begin attempts, as many as there are places."""
        for endpoint in self._endpoints.values():
            if endpoint.sender is None:
                continue
            while self._is_confirmed and (due := endpoint.lanes.begin()) is not None:
                letter = Letter(due.event.id)
                before = None
                if due.is_first:
                    before, endpoint.last = endpoint.last, letter
                work = self._attempt(endpoint, endpoint.sender, due, letter, before)
                task = asyncio.create_task(work, name="webhook_attempt")
                endpoint.tasks.add(task)
                task.add_done_callback(endpoint.tasks.discard)

    # Attempts

    async def _attempt(
        self, endpoint: Endpoint, sender: Sender, due: Due, letter: Letter, before: Letter | None
    ) -> None:
        """Send once, in turn, and report the end; a place is free then."""
        began = self.clock.monotonic()
        try:
            letter.body = self._encode(due.event)
            if before is not None:
                await _in_turn(before)
            outcome = await sender.send(letter)
        except Exception:
            self.log.error("webhook_attempt_broken", exc_info=True, event=due.event.id)
            outcome = Outcome(retries.UNREACHABLE)
        finally:
            letter.written.set()  # whoever waits for it goes on
            letter.ended.set()
        endpoint.lanes.end(due.sequence)
        self.metrics.webhooks.attempted(outcome.text)
        self.tell(self._end(endpoint, due, outcome, self.clock.monotonic() - began))
        self._nudges.wake()
        self._begin()

    def _end(self, endpoint: Endpoint, due: Due, outcome: Outcome, seconds: float) -> End:
        pause = None
        if outcome.is_delivered:
            status = "delivered"
        else:
            pause = retries.pause_after(
                outcome,
                attempts=due.attempts + 1,
                pauses=endpoint.settings.pauses,
                chance=self._chance(),
            )
            status = "dead" if pause is None else "pending"
        return End(
            webhook_id=due.webhook_id,
            claim=due.claim,
            sequence=due.sequence,
            outcome=outcome.text,
            status=status,
            pause=pause,
            ago=seconds,
        )

    async def _book(self) -> None:
        """Book the ends of attempts; if the database is away, they are booked by a later round."""
        disabled = await store.book(
            self._database, self._process_id, self._unbooked, failing_days=FAILING_DAYS
        )
        ends, self._unbooked = self._unbooked, []
        dead = 0
        for end in ends:
            endpoint = self._endpoints.get(end.webhook_id)
            if endpoint is not None and endpoint.claim.number == end.claim:
                endpoint.lanes.booked(end.sequence)
            dead += end.status == "dead"
        if dead:
            self.metrics.webhooks.died(dead)
            self.log.warning("webhook_deliveries_dead", count=dead)
        for webhook_id, reason in disabled:
            self.log.warning("webhook_disabled", webhook=webhook_id, reason=reason)
            self._nudges.changed()


async def _in_turn(before: Letter) -> None:
    """Wait for the turn of the letter after `before`."""
    for event, seconds in ((before.written, IN_TURN_SECONDS), (before.ended, APART_SECONDS)):
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            pass
