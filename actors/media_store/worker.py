"""Copies the results of tasks, and drops copies at the end of their retention.

One per process, if a store is configured. Every process looks for work; a copy that a killed
process had claimed is continued by another where it stopped.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from actors.clock import Clock
from actors.media_store.copier import Copier
from actors.media_store.copies import Copy, Kept
from actors.media_store.links import LinkSigner, period_end
from actors.media_store.own_links import with_own_links
from actors.media_store.storage import CopyStorage, LocalFile, StorageFault
from actors.media_store.store import CopyStore
from actors.store.errors import StoreError
from actors.store.waits import in_time
from channels.media.results import TaskResult
from channels.shares import Shares
from metrics.logs import EventLog

ROUND_SECONDS: Final = 2.0
EXPIRE_SECONDS: Final = 600.0  # interval of the search for copies to expire
DROPS_MAX: Final = 50  # in one round
PATH: Final = "/v1/media/"  # of links to copies


class MediaStore:
    """Makes copies, and returns the links to kept ones."""

    def __init__(
        self,
        *,
        store: CopyStore,
        storage: CopyStorage,
        copier: Copier,
        find: Callable[[], Awaitable[bool]],
        signer: LinkSigner,
        keep_days: int,
        concurrency: int,
        clock: Clock,
    ) -> None:
        self._store = store
        self._storage = storage
        self._copier = copier
        self._find = find
        self._signer = signer
        self._keep_days = keep_days
        self._clock = clock
        # Half of them for an account, whose upstreams may be slow.
        self._places = Shares(concurrency, max(1, concurrency // 2))
        self._copying: set[asyncio.Task[None]] = set()
        self._expire_at = 0.0
        self._log = EventLog("actors.media_store")

    # --- Work ---

    async def run(self) -> None:
        """Run rounds until cancelled."""
        try:
            while True:
                try:
                    has_more = await self.round()
                except StoreError as error:
                    self._log.warning("media_store_waits", error=str(error))
                    has_more = False
                if not has_more:
                    await self._clock.sleep(ROUND_SECONDS)
        except asyncio.CancelledError:
            for task in self._copying:
                task.cancel()
            await self.finished()
            await self._storage.close()
            raise

    async def round(self) -> bool:
        """Find, claim and begin copies, drop others; return whether there may be more to find."""
        has_more = await self._find()
        if self._clock.monotonic() >= self._expire_at:
            await self._store.expire(self._keep_days)
            self._expire_at = self._clock.monotonic() + EXPIRE_SECONDS
        await self._drop()
        while self._places.used < self._places.limit and await self._begin():
            pass
        return has_more

    async def _begin(self) -> bool:
        """Claim and begin a copy of an account that has a place left; False if none is due."""
        full = self._places.full()
        claimed = await self._store.claim("waiting", _new_claim_id(), 1, without=full)
        for copy in claimed:
            self._places.force(copy.account_id, 1)
            task = asyncio.create_task(self._copy(copy), name=f"copy {copy.id}")
            self._copying.add(task)
            task.add_done_callback(partial(self._ended, copy))
        return bool(claimed)

    def _ended(self, copy: Copy, task: asyncio.Task[None]) -> None:
        self._copying.discard(task)
        self._places.give_back(copy.account_id)

    async def finished(self) -> None:
        """Wait for the end of the copies under way."""
        if self._copying:
            await asyncio.wait(self._copying)

    async def _copy(self, copy: Copy) -> None:
        try:
            await self._copier.copy(copy)
        except StoreError as error:
            # Its claim expires, and the next process that claims it continues.
            self._log.warning("media_store_waits", task_id=copy.job_id, error=str(error))
        except Exception:  # noqa: BLE001 - a fault of ours, which must not end the other copies
            self._log.error("media_copier_died", exc_info=True, task_id=copy.job_id)

    async def _drop(self) -> None:
        for copy in await self._store.claim("dropping", _new_claim_id(), DROPS_MAX):
            try:
                await self._storage.remove(copy)
            except StorageFault as fault:
                # Retried when the claim has expired.
                self._log.warning("media_not_dropped", task_id=copy.job_id, reason=str(fault))
                continue
            await self._store.dropped(copy)

    # --- Links ---

    async def kept(self, jobs: Sequence[str]) -> Mapping[str, Mapping[int, Kept]]:
        """Return the kept copies of these jobs. Raises StoreUnavailable."""
        return await in_time(self._store.of_jobs(jobs)) if jobs else {}

    def own_links(
        self, result: TaskResult, kept: Mapping[int, Kept], *, base_url: str
    ) -> TaskResult:
        """Return a result with our links for its copies; `base_url` is the gateway's address."""
        return with_own_links(result, kept, lambda copy: self._link(copy, base_url))

    def is_good_link(self, path: str, expires: str, signature: str) -> bool:
        """Whether we signed this path, and the link has not expired."""
        return self._signer.is_good(path, expires, signature, now=self._clock.now())

    async def served(self, file_name: str) -> tuple[Kept, LocalFile | str] | None:
        """Return a copy by the last part of its link: a file, or a link to redirect to.

        None if it is no longer kept. Raises StoreUnavailable and StorageFault.
        """
        copy_id, _, _ = file_name.partition(".")
        kept = await in_time(self._store.one(copy_id))
        if kept is None or kept.file_name != file_name:
            return None
        return kept, await self._storage.served(kept)

    def _link(self, kept: Kept, base_url: str) -> tuple[str, float]:
        path = f"{PATH}{kept.file_name}"
        expires = period_end(kept.kept_at, self._clock.now())
        return f"{base_url}{path}?{self._signer.query(path, expires)}", float(expires)


def _new_claim_id() -> str:
    return uuid.uuid4().hex
