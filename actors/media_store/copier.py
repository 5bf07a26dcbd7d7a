"""Makes one copy: continues where the last attempt stopped, until its end or a fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Literal

from actors.clock import Clock
from actors.media_store.copies import CONTENT_TYPES, Copy, CopyProgress
from actors.media_store.fetch import FetchFault, FileLocation, Opened, opened
from actors.media_store.storage import Busy, CopyStorage, Lost, StorageFault, Writing
from actors.media_store.store import CopyStore
from actors.media_store.throttle import Throttle
from metrics.groups.media import MediaStoreMetrics
from metrics.logs import EventLog

BEATS: Final = 4  # per claim: how often it is renewed, and progress stored
FIRST_PAUSE_SECONDS: Final = 2.0
PAUSE_SECONDS_MAX: Final = 900.0
FULL_PAUSE_SECONDS: Final = 5.0  # until the copies to be dropped are
# A copy older than this is given up, whatever delayed it.
AGE_SECONDS_MAX: Final = 3 * 86_400.0
# Room is reserved in steps of this if the upstream does not state the size of a file.
STEP_BYTES: Final = 64 * 1024 * 1024

Outcome = Literal["kept", "retried", "failed", "left"]
# Opens a file from a byte on, as `opened`.
Fetch = Callable[..., AbstractAsyncContextManager[Opened]]
# Returns the present location of a copy's file; None if it is unknown.
Locate = Callable[[Copy], Awaitable[FileLocation | None]]


class ClaimLost(Exception):
    """Another process has claimed the copy."""


class RoomFull(Exception):
    """There is no room for it: not yet, or (`is_final`) never."""

    def __init__(self, *, is_final: bool) -> None:
        super().__init__()
        self.is_final = is_final


class Copier:
    """Makes copies for one process, each in a task of its caller."""

    def __init__(
        self,
        *,
        store: CopyStore,
        storage: CopyStorage,
        locate: Locate,
        bytes_max: int | None,
        file_bytes_max: int,
        throttle: Throttle,
        clock: Clock,
        metrics: MediaStoreMetrics,
        fetch: Fetch = opened,
    ) -> None:
        self._store = store
        self._storage = storage
        self._locate = locate
        self._bytes_max = bytes_max
        self._file_bytes_max = file_bytes_max
        self._throttle = throttle
        self._clock = clock
        self._metrics = metrics
        self._fetch = fetch
        self._log = EventLog("actors.media_store")

    async def copy(self, copy: Copy) -> Outcome:
        """Make one copy, and store the outcome. Raises StoreError."""
        beat = Beat(copy, self._store, self._clock)
        try:
            async with self._claimed(beat):
                await self._make(copy, beat)
            outcome: Outcome = "kept"
        except asyncio.CancelledError:
            # The process ends: the next one that claims the copy continues at once.
            await self._store.later(copy, pause_seconds=0.0, error=None, counts=False)
            raise
        except ClaimLost:
            outcome = "left"
        except RoomFull as full:
            outcome = await self._full(copy, full)
        except Lost as fault:
            await self._store.hold_on(copy, CopyProgress(0, None))
            outcome = await self._again(copy, beat, str(fault))
        except Busy as fault:
            await self._store.later(
                copy, pause_seconds=self._store.claim_seconds, error=str(fault), counts=False
            )
            outcome = "left"
        except StorageFault as fault:
            outcome = await self._again(copy, beat, str(fault))
        except FetchFault as fault:
            outcome = await self._again(
                copy, beat, fault.reason, attempts=fault.attempts, after=fault.after_seconds
            )
        self._metrics.copied(outcome)
        return outcome

    async def _make(self, copy: Copy, beat: Beat) -> None:
        location = await self._locate(copy)
        if location is None:
            raise FetchFault("the channel is gone")
        writing = await self._storage.open(copy)
        try:
            async with self._fetch(
                location, start=writing.done, validator=copy.validator
            ) as source:
                if source.start != writing.done or (
                    source.start and copy.size is not None and source.size != copy.size
                ):
                    await self._anew(copy, writing)
                    if source.start:
                        raise FetchFault("another file than before")
                beat.follow(writing, source.validator)
                try:
                    await self._pour(copy, source, writing)
                except FetchFault:
                    if not await beat.beat():  # so that received bytes are not fetched again
                        raise ClaimLost from None
                    raise
            content_type = _content_type(source, copy)
            beat.follow(None, None)
            await writing.finish(content_type)
        finally:
            await writing.close()
        if not await self._store.kept(copy, size=writing.done, content_type=content_type):
            raise ClaimLost
        self._log.info(
            "media_copied", task_id=copy.job_id, channel=copy.channel_id, bytes=writing.done
        )

    async def _anew(self, copy: Copy, writing: Writing) -> None:
        """Discard the stored part, which is of another file."""
        await writing.restart()
        if not await self._store.hold_on(copy, CopyProgress(0, None)):
            raise ClaimLost

    async def _pour(self, copy: Copy, source: Opened, writing: Writing) -> None:
        taken = 0 if source.size is None else source.size
        await self._take_room(copy, max(taken, writing.done))
        async for piece in source.pieces():
            if writing.done + len(piece) > taken:
                if source.size is not None:
                    raise FetchFault("more than its length")
                taken += STEP_BYTES
                await self._take_room(copy, taken)
            await writing.write(piece)
            self._metrics.bytes(len(piece))
            await self._throttle.take(len(piece))
        if source.size is not None and writing.done != source.size:
            raise FetchFault("cut")

    async def _take_room(self, copy: Copy, size: int) -> None:
        if size > self._file_bytes_max:
            raise RoomFull(is_final=True)
        bytes_max = self._bytes_max
        if bytes_max is None:
            return
        if size > bytes_max:
            raise RoomFull(is_final=True)
        if not await self._store.room(copy, size, bytes_max=bytes_max):
            raise RoomFull(is_final=False)

    async def _full(self, copy: Copy, full: RoomFull) -> Outcome:
        if full.is_final or copy.age_seconds > AGE_SECONDS_MAX:
            return await self._given_up(copy, "too large" if full.is_final else "no room")
        await self._store.later(
            copy, pause_seconds=FULL_PAUSE_SECONDS, error="no room", counts=False
        )
        return "retried"

    async def _again(
        self,
        copy: Copy,
        beat: Beat,
        reason: str,
        *,
        attempts: int | None = None,
        after: float | None = None,
    ) -> Outcome:
        """Schedule another attempt after a pause that doubles; give up after enough of them."""
        before = 0 if beat.has_progressed else copy.attempts
        if (attempts is not None and before + 1 >= attempts) or copy.age_seconds > AGE_SECONDS_MAX:
            return await self._given_up(copy, reason)
        pause = min(PAUSE_SECONDS_MAX, FIRST_PAUSE_SECONDS * 2 ** min(before, 16))
        await self._store.later(copy, pause_seconds=max(pause, after or 0.0), error=reason)
        return "retried"

    async def _given_up(self, copy: Copy, reason: str) -> Outcome:
        await self._store.given_up(copy, error=reason)
        self._log.warning(
            "media_not_copied", task_id=copy.job_id, channel=copy.channel_id, reason=reason
        )
        return "failed"

    @asynccontextmanager
    async def _claimed(self, beat: Beat) -> AsyncIterator[None]:
        """Keep the claim while the body runs; once it is lost, the body is cancelled."""
        body = asyncio.current_task()
        assert body is not None
        beating = asyncio.create_task(beat.run())

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                body.cancel()

        beating.add_done_callback(ended)
        try:
            yield
        except asyncio.CancelledError:
            if not beating.done():
                raise
            body.uncancel()
            fault = beating.exception()
            raise ClaimLost if fault is None else fault from None
        finally:
            beating.remove_done_callback(ended)
            beating.cancel()
            await asyncio.wait([beating])


class Beat:
    """Renews a claim, and stores the progress of the copy with it."""

    def __init__(self, copy: Copy, store: CopyStore, clock: Clock) -> None:
        self._copy = copy
        self._store = store
        self._clock = clock
        self._writing: Writing | None = None
        self._validator: str | None = None
        self.has_progressed = False

    def follow(self, writing: Writing | None, validator: str | None) -> None:
        """Set what is being written; None: nothing that could be saved."""
        self._writing, self._validator = writing, validator

    async def run(self) -> None:
        """Beat until cancelled, or until the claim is lost."""
        while True:
            await self._clock.sleep(self._store.claim_seconds / BEATS)
            if not await self.beat():
                return

    async def beat(self) -> bool:
        """Beat once; False if the claim is lost."""
        progress = None if self._writing is None else await self._writing.save()
        if progress is not None and self._validator is not None:
            progress = CopyProgress(
                progress.done, self._validator, progress.upload_id, progress.parts
            )
            self.has_progressed |= progress.done > self._copy.done
        else:
            progress = None  # without a validator the copy starts again
        return await self._store.hold_on(self._copy, progress)


def _content_type(source: Opened, copy: Copy) -> str:
    """Return the upstream's content type, if it is one of media; else the expected one."""
    declared = source.content_type
    return declared if declared in CONTENT_TYPES else copy.content_type
