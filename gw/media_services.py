"""What the media endpoints use, made of the configuration and wired to the rest."""

from __future__ import annotations

from actors.catalogs.catalogs import Catalogs
from actors.clock import Clock
from actors.directory import ChannelDirectory
from actors.jobs.content import JobContent
from actors.jobs.jobs import Links
from actors.jobs.renewal import LinkRenewal
from actors.store.database import Database
from channels.http.interfaces import Wire
from gw.api.media_services import FilmCount, MediaServices
from gw.calls.billing import Billing
from gw.calls.exchange_upstream import ExchangeUpstream
from gw.calls.job_submit import JobSubmit
from gw.calls.media import MediaUpstream
from gw.calls.speech_upstream import SpeechUpstream
from gw.calls.sync_media import SyncMedia
from gw.calls.unattended import Unattended
from gw.calls.whole_submit import WholeCall, WholeSubmit
from gw.http.drain import RequestsInFlight
from gw.jobs import make_content_links, make_jobs, make_upstreams
from gw.keys.secret import Secret
from gw.live_config import LiveConfig
from gw.voices.store import Voices
from metrics.prometheus import Metrics

# Ten pictures of some twenty megabytes each; the upstream writes them in base64.
MEDIA_RESPONSE_BYTES_MAX = 256 * 1024 * 1024


def make_media_services(
    current: LiveConfig,
    *,
    billing: Billing,
    channels: ChannelDirectory,
    database: Database,
    links: Links,
    wire: Wire,
    in_flight: RequestsInFlight,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
) -> MediaServices:
    """Make them; `links` are those of results.

    A process that is stopped waits for what is in `in_flight`.
    """
    config = current.config
    jobs = make_jobs(config.tasks, database, clock, metrics, links)
    upstreams = make_upstreams(current, wire=wire, clock=clock)
    exchanges = ExchangeUpstream(wire=wire, clock=clock)
    unattended = Unattended(in_flight)

    def submits(seconds: float) -> JobSubmit:
        return JobSubmit(
            billing=billing,
            channels=channels,
            upstream=exchanges,
            upstreams=upstreams,
            jobs=jobs,
            unattended=unattended,
            redactor=current.redactor,
            total_seconds=seconds,
        )

    images = SyncMedia(
        billing=billing,
        channels=channels,
        upstream=MediaUpstream(
            wire=wire,
            redactor=current.redactor,
            clock=clock,
            attempt_seconds=config.timeouts.image_attempt,
            response_bytes_max=MEDIA_RESPONSE_BYTES_MAX,
        ),
        redactor=current.redactor,
        total_seconds=config.timeouts.image_total,
    )

    def unknown(call: WholeCall, channel_id: str) -> None:
        jobs.submit_unknown(call.facts, channel_id, task_id=call.upstream_key)

    def whole(upstream: ExchangeUpstream, seconds: float) -> WholeSubmit:
        return WholeSubmit(
            billing=billing,
            channels=channels,
            upstream=upstream,
            unknown=unknown,
            redactor=current.redactor,
            total_seconds=seconds,
        )

    timeouts = config.timeouts
    return MediaServices(
        images=images,
        jobs=jobs,
        video_submit=submits(timeouts.video_submit),
        speech_submit=submits(timeouts.speech),
        upstreams=upstreams,
        renewal=LinkRenewal(database=database, upstreams=upstreams, clock=clock),
        content=JobContent(
            wire=wire,
            channels=lambda: current.registry().channels,
            seconds=timeouts.task_poll,
        ),
        content_links=make_content_links(current, secret),
        films=FilmCount(),
        speech=whole(SpeechUpstream(wire=wire, clock=clock), timeouts.speech),
        voice=whole(exchanges, timeouts.voice),
        transcript=whole(exchanges, timeouts.transcript),
        unattended=unattended,
        voices=Voices(database),
        catalogs=Catalogs(
            wire=wire,
            channels=lambda: current.registry().channels,
            fresh_seconds=config.tasks.catalog_seconds,
            clock=clock,
        ),
        redactor=current.redactor,
    )
