"""The media store as this gateway has it: made of the configuration, wired to the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec

from actors.actor import Supervisor
from actors.clock import Clock
from actors.jobs.job import Job
from actors.jobs.store import Links, as_stored
from actors.media_store.copier import Copier, FileLocation, Throttle
from actors.media_store.links import PURPOSE, LinkSigner
from actors.media_store.storage import BucketStorage, CopyStorage, FolderStorage
from actors.media_store.store import Copy, CopyStore, Kept
from actors.media_store.worker import MediaStore, TaskScanner
from channels.media.dialects import DIALECTS
from channels.media.model import addressed
from gw.api.services import BASE_URL
from gw.config.config import LiveConfig
from gw.keys.secret import Secret
from gw.runtime import Pools
from metrics.prometheus import Metrics


def start_media_store(
    supervisor: Supervisor,
    pools: Pools,
    current: LiveConfig,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> MediaStore | None:
    """Have results copied in this process; None where the configuration wants no copies."""
    config = current.config
    spec = config.media_store
    if spec.kind == "none":
        return None
    store = CopyStore(pools.media, spec.kind)
    is_folder = spec.kind == "local"
    storage: CopyStorage = (
        FolderStorage(config.data_dir / spec.path) if is_folder else BucketStorage(spec.bucket)
    )
    copier = Copier(
        store=store,
        storage=storage,
        locate=Locator(current).locate,
        bytes_max=spec.bytes_max if is_folder else None,
        file_bytes_max=spec.file_bytes_max,
        throttle=Throttle(spec.bytes_per_second, clock),
        clock=clock,
        metrics=metrics.media_store,
    )
    media_store = MediaStore(
        store=store,
        storage=storage,
        copier=copier,
        find=TaskScanner(pools.media, store).find,
        signer=LinkSigner(*secret.subkeys(PURPOSE)),
        keep_days=spec.keep_days,
        concurrency=spec.concurrency,
        clock=clock,
    )
    supervisor.start("media_store", media_store.run)
    return media_store


def links_of(media_store: MediaStore | None, public_url: str) -> Links:
    """What puts our own links into the results of jobs, where there are copies.

    A link begins with `public_url` or, without one, as its client reached us when it submitted.
    """
    if media_store is None:
        return as_stored

    async def links(jobs: Sequence[Job]) -> Sequence[Job]:
        kept = await media_store.kept([job.id for job in jobs if job.stored_result is not None])
        return [_linked(job, kept[job.id]) if job.id in kept else job for job in jobs]

    def _linked(job: Job, kept: Mapping[int, Kept]) -> Job:
        base_url = public_url or job.request.get(BASE_URL, "")
        if job.result is None or not base_url:
            return job
        result = media_store.own_links(job.result, kept, base_url=base_url)
        return replace(job, stored_result=msgspec.to_builtins(result))

    return links


class Locator:
    """Where results are, by the channels in force at that moment."""

    def __init__(self, current: LiveConfig) -> None:
        self._current = current

    async def locate(self, copy: Copy) -> FileLocation | None:
        """A link, or what the channel gives for its own key; None for a channel that is gone."""
        channel = self._current.registry.channels.get(copy.channel_id)
        if channel is None:
            return None
        content = DIALECTS[channel.dialect_of(copy.wire)].content(copy.upstream_id)
        if content is not None:
            request = addressed(channel, content)
            return FileLocation(request.url, channel.base_url, request.headers, channel.transport)
        if copy.url is None:
            return None
        return FileLocation(copy.url, channel.base_url, transport=channel.transport)
