"""Creates the services of media endpoints, and the media store, from the configuration."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from actors.catalogs import Catalogs
from actors.clock import Clock
from actors.jobs.content import JobContent
from actors.jobs.ending import Endings, Settles
from actors.jobs.job import Job
from actors.jobs.link_renewal import LinkRenewal
from actors.jobs.poller import Poller
from actors.jobs.schedule import Schedule
from actors.jobs.service import Jobs, Links, as_stored
from actors.jobs.upstreams import JobUpstreams
from actors.media_store.bucket import BucketStorage
from actors.media_store.copier import Copier
from actors.media_store.copies import Copy, Kept
from actors.media_store.fetch import FileLocation
from actors.media_store.folder import FolderStorage
from actors.media_store.links import PURPOSE, LinkSigner
from actors.media_store.storage import CopyStorage
from actors.media_store.store import CopyStore
from actors.media_store.task_scanner import TaskScanner
from actors.media_store.throttle import Throttle
from actors.media_store.worker import MediaStore
from actors.store.database import Database
from channels.http.interfaces import UpstreamClient
from channels.media.dialects import DIALECTS
from channels.media.exchanges import addressed
from channels.offload.pool import OffloadPool
from channels.registry import ChannelSpec
from gw.api.link_readers import FILMS_MAX, LinkReaders
from gw.api.services import MediaServices
from gw.api.videos.content_links import BASE_URL, ContentLinks
from gw.calls.detached import DetachedTasks
from gw.calls.exchange_upstream import ExchangeUpstream, SpeechUpstream
from gw.calls.jobs import JobSubmit
from gw.calls.media import Media
from gw.calls.media_calls import PieceCall, SubmitCall
from gw.calls.piece_upstream import PieceUpstream
from gw.calls.repeatable_upstream import RepeatableUpstream
from gw.calls.settlement import Billing
from gw.calls.upstream_prices import UpstreamPrices
from gw.config.config import Tasks
from gw.config.live import LiveConfig
from gw.keys.secret import Secret
from gw.runtime.process import Process, Store
from gw.voices import Voices
from metrics.prometheus import Metrics


def make_jobs(
    tasks: Tasks, database: Database, clock: Clock, metrics: Metrics, links: Links = as_stored
) -> Jobs:
    """Return the jobs for the endpoints, with these links to results."""
    return Jobs(
        database=database,
        schedule=_schedule(tasks),
        deadline_seconds=tasks.deadline,
        chance=random.random,
        clock=clock,
        metrics=metrics,
        links=links,
    )


def make_poller(process: Process, store: Store, *, settle: Settles, http: UpstreamClient) -> Poller:
    """Return the poller of this process, which has its own pool."""
    current, database = process.current, store.pools.jobs
    clock, metrics, tasks = process.clock, process.metrics, process.current.config.tasks
    upstreams = make_upstreams(current, http=http, clock=clock)
    return Poller(
        name=process.identity.first_id,
        database=database,
        upstreams=upstreams,
        endings=make_endings(
            current,
            database=database,
            settle=settle,
            upstreams=upstreams,
            secret=store.secret,
            clock=clock,
            metrics=metrics,
        ),
        schedule=_schedule(tasks),
        concurrency=tasks.poll_concurrency,
        claim_seconds=tasks.lease,
        chance=random.random,
        clock=clock,
        metrics=metrics,
        changed=process.memory.jobs_changed,
    )


def make_upstreams(current: LiveConfig, *, http: UpstreamClient, clock: Clock) -> JobUpstreams:
    """Return the client of jobs at the current channels."""

    def channels() -> Mapping[str, ChannelSpec]:
        return current.registry.channels

    seconds = current.config.timeouts.task_poll
    return JobUpstreams(
        http=http,
        channels=channels,
        seconds=seconds,
        body_bytes_max=current.config.max_body_bytes,
        clock=clock,
    )


def make_content_links(current: LiveConfig, secret: Secret) -> ContentLinks:
    """Return the links to films served by the gateway, equal in every process."""
    keys = secret.subkeys("gw film links")
    return ContentLinks(*keys, public_url=current.config.public_url)


def make_endings(
    current: LiveConfig,
    *,
    database: Database,
    settle: Settles,
    upstreams: JobUpstreams,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> Endings:
    """Return the endings of jobs, which settle by `settle`."""
    return Endings(
        database=database,
        settle=settle,
        upstreams=upstreams,
        redact=current.redact,
        content_link=make_content_links(current, secret).link,
        upstream_cost=UpstreamPrices(current).of_job,
        clock=clock,
        metrics=metrics,
    )


def endings_of(
    current: LiveConfig,
    *,
    database: Database,
    http: UpstreamClient,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> Callable[[Settles], Endings]:
    """Return the endings of jobs outside of the poller: for an operator's cancellation."""

    def make(settle: Settles) -> Endings:
        return make_endings(
            current,
            database=database,
            settle=settle,
            upstreams=make_upstreams(current, http=http, clock=clock),
            secret=secret,
            clock=clock,
            metrics=metrics,
        )

    return make


def _schedule(tasks: Tasks) -> Schedule:
    return Schedule(
        first_seconds=tasks.poll_first,
        factor=float(tasks.poll_factor),
        max_seconds=tasks.poll_max,
    )


# Ten images of some twenty megabytes each, in base64.
MEDIA_RESPONSE_BYTES_MAX = 256 * 1024 * 1024


def make_media_services(
    process: Process,
    store: Store,
    *,
    billing: Billing,
    links: Links,
    http: UpstreamClient,
    offload: OffloadPool,
) -> MediaServices:
    """Create the services; `links` are those of results."""
    current, clock, database = process.current, process.clock, store.pools.calls
    config = current.config
    jobs = make_jobs(config.tasks, database, clock, process.metrics, links)
    upstreams = make_upstreams(current, http=http, clock=clock)
    body_bytes_max = config.max_body_bytes
    exchanges = ExchangeUpstream(http=http, body_bytes_max=body_bytes_max, clock=clock)
    speaking = SpeechUpstream(http=http, body_bytes_max=body_bytes_max, clock=clock)
    shared: dict[str, Any] = {
        "billing": billing,
        "channels": process.memory.channels,
        "current": current,
        "detached": DetachedTasks(process.in_flight),
    }

    def unknown(call: SubmitCall, channel_id: str) -> None:
        jobs.submit_unknown(call.facts, channel_id, task_id=call.upstream_key)

    def submits(seconds: float) -> JobSubmit:
        return JobSubmit(
            upstream=exchanges, upstreams=upstreams, jobs=jobs, total_seconds=seconds, **shared
        )

    def whole(upstream: ExchangeUpstream, seconds: float) -> Media[SubmitCall]:
        return Media(upstream=upstream, unknown=unknown, total_seconds=seconds, **shared)

    pieces = Media(
        upstream=PieceUpstream(
            http=http,
            current=current,
            clock=clock,
            attempt_seconds=config.timeouts.image_attempt,
            response_bytes_max=MEDIA_RESPONSE_BYTES_MAX,
        ),
        total_seconds=config.timeouts.image_total,
        **shared,
    )
    timeouts = config.timeouts

    def repeatable(seconds: float) -> Media[PieceCall]:
        upstream = RepeatableUpstream(
            http=http,
            current=current,
            clock=clock,
            attempt_seconds=seconds,
            response_bytes_max=MEDIA_RESPONSE_BYTES_MAX,
            offload=offload,
        )
        return Media(upstream=upstream, total_seconds=seconds, **shared)

    return MediaServices(
        pieces=pieces,
        embeddings=repeatable(timeouts.embeddings),
        decisions=repeatable(timeouts.decisions),
        jobs=jobs,
        video_submit=submits(timeouts.video_submit),
        speech_submit=submits(timeouts.speech),
        upstreams=upstreams,
        renewal=LinkRenewal(database=database, upstreams=upstreams, clock=clock),
        content=JobContent(
            http=http,
            channels=lambda: current.registry.channels,
            seconds=timeouts.task_poll,
        ),
        content_links=make_content_links(current, store.secret),
        films=LinkReaders(FILMS_MAX),
        speech=whole(speaking, timeouts.speech),
        voice=whole(exchanges, timeouts.voice),
        transcript=whole(exchanges, timeouts.transcript),
        voices=Voices(database, clock),
        catalogs=Catalogs(
            http=http,
            channels=lambda: current.registry.channels,
            fresh_seconds=config.tasks.catalog_seconds,
            clock=clock,
        ),
    )


def start_media_store(process: Process, of: Store) -> MediaStore | None:
    """Start copying results in this process; None if no copies are configured."""
    database, clock, config = of.pools.media, process.clock, process.current.config
    spec = config.media_store
    if spec.kind == "none":
        return None
    store = CopyStore(database, spec.kind)
    is_folder = spec.kind == "local"
    storage: CopyStorage = (
        FolderStorage(config.data_dir / spec.path) if is_folder else BucketStorage(spec.bucket)
    )
    copier = Copier(
        store=store,
        storage=storage,
        locate=Locator(process.current).locate,
        bytes_max=spec.bytes_max if is_folder else None,
        file_bytes_max=spec.file_bytes_max,
        throttle=Throttle(spec.bytes_per_second, clock),
        clock=clock,
        metrics=process.metrics.media_store,
    )
    media_store = MediaStore(
        store=store,
        storage=storage,
        copier=copier,
        find=TaskScanner(database, store).find,
        signer=LinkSigner(*of.secret.subkeys(PURPOSE)),
        keep_days=spec.keep_days,
        concurrency=spec.concurrency,
        clock=clock,
    )
    process.supervisor.start("media_store", media_store.run)
    return media_store


def links_of(media_store: MediaStore | None, public_url: str) -> Links:
    """Return the replacement of links in the results of jobs, if there are copies.

    A link begins with `public_url` or, without one, with the URL of the job's submission.
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
    """Locates results, using the current channels."""

    def __init__(self, current: LiveConfig) -> None:
        self._current = current

    async def locate(self, copy: Copy) -> FileLocation | None:
        """Return a link, or the file behind the channel's key; None for a removed channel."""
        channel = self._current.registry.channels.get(copy.channel_id)
        if channel is None:
            return None
        content = DIALECTS[channel.dialect_of(copy.upstream_protocol)].content(copy.upstream_id)
        if content is not None:
            request = addressed(channel, content)
            return FileLocation(request.url, channel.base_url, request.headers, channel.transport)
        if copy.url is None:
            return None
        return FileLocation(copy.url, channel.base_url, transport=channel.transport)
