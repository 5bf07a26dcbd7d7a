"""Asynchronous jobs as this gateway runs them: made of the configuration, wired to the rest."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping

from actors.clock import Clock
from actors.jobs.ending import Endings, Settles
from actors.jobs.exchange import JobUpstreams
from actors.jobs.jobs import Jobs, Links, as_stored
from actors.jobs.poller import Poller
from actors.jobs.schedule import Schedule
from actors.store.database import Database
from actors.wallet.jobs import JobEnd
from actors.wallet.messages import CallFacts, Outcome
from actors.wallet.wallets import Wallets
from channels.http.interfaces import Wire
from channels.registry import ChannelSpec
from gw.config.config import Tasks
from gw.content_links import ContentLinks
from gw.keys.secret import Secret
from gw.live_config import LiveConfig
from metrics.prometheus import Metrics


def make_jobs(
    tasks: Tasks, database: Database, clock: Clock, metrics: Metrics, links: Links = as_stored
) -> Jobs:
    """The jobs that endpoints begin and show, their results with these links."""
    return Jobs(
        database=database,
        schedule=_schedule(tasks),
        deadline_seconds=tasks.deadline,
        chance=random.random,
        clock=clock,
        metrics=metrics,
        links=links,
    )


def make_poller(
    current: LiveConfig,
    *,
    name: str,
    database: Database,
    wallets: Wallets,
    wire: Wire,
    secret: Secret,
    clock: Clock,
    metrics: Metrics,
    changed: asyncio.Event,
) -> Poller:
    """What polls and ends jobs in this process; `database` is of its own, `changed` as there."""
    config = current.config
    upstreams = make_upstreams(current, wire=wire, clock=clock)
    return Poller(
        name=name,
        database=database,
        upstreams=upstreams,
        endings=make_endings(
            current,
            database=database,
            settle=_settled_by(wallets),
            upstreams=upstreams,
            secret=secret,
            clock=clock,
            metrics=metrics,
        ),
        schedule=_schedule(config.tasks),
        concurrency=config.tasks.poll_concurrency,
        lease_seconds=config.tasks.lease,
        chance=random.random,
        clock=clock,
        metrics=metrics,
        changed=changed,
    )


def make_upstreams(current: LiveConfig, *, wire: Wire, clock: Clock) -> JobUpstreams:
    """Where jobs are polled and given up: the channels in force."""

    def channels() -> Mapping[str, ChannelSpec]:
        return current.registry().channels

    seconds = current.config.timeouts.task_poll
    return JobUpstreams(wire=wire, channels=channels, seconds=seconds, clock=clock)


def make_content_links(current: LiveConfig, secret: Secret) -> ContentLinks:
    """The links to films that the gateway serves itself, the same in every process."""
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
    """What ends jobs, by whatever applies their settlements."""
    return Endings(
        database=database,
        settle=settle,
        upstreams=upstreams,
        redact=current.redact,
        content_link=make_content_links(current, secret).link,
        clock=clock,
        metrics=metrics,
    )


def _settled_by(wallets: Wallets) -> Settles:
    async def settle(facts: CallFacts, outcome: Outcome, job_end: JobEnd) -> None:
        wallets.settle(facts, outcome, job_end=job_end)
        await wallets.settled(facts.account_id)

    return settle


def _schedule(tasks: Tasks) -> Schedule:
    return Schedule(
        first_seconds=tasks.poll_first,
        factor=float(tasks.poll_factor),
        max_seconds=tasks.poll_max,
    )
