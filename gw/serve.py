"""The composition root: creates and wires every object of a running gateway.

Starts in the order of dependency (database, ledger, channels, recovery, listeners) and stops in
reverse: first no new client is accepted, then calls in flight end and are settled, then the rest is
closed. Signals and the ready line are in `run.py`.
"""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from actors.changes import ChangeFeed
from actors.events.outbox import Event
from actors.heartbeat import Heartbeat
from actors.limits.accounts import AccountLimits
from actors.media_store.worker import MediaStore
from actors.process import is_process_alive
from actors.recovery import Recovery
from actors.store.database import Database
from actors.store.embedded.postgres import EmbeddedPostgres
from actors.store.errors import DatabaseRefused
from actors.store.schema import migrate
from actors.wallet.flight_recorder.recorder import Recorder
from actors.wallet.neighbours import Neighbours
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from actors.webhooks.deliverer import Deliverer
from channels.answers import AnswerBudget
from channels.body_budget import BodyBudget
from channels.http.client import HttpClient
from channels.http.interfaces import UpstreamClient
from channels.offload.pool import OffloadPool
from channels.shares import halves
from gw import media_services
from gw.admin.channel_orders import ChannelOrders
from gw.admin.channel_states import report_of
from gw.admin.webhooks import body_of
from gw.admin_services import make_admin_api
from gw.api.application import GatewayApplication
from gw.api.call_ids import new_call_id
from gw.api.knowledge.services import make_sources, make_wiki
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.rows import Rendering
from gw.api.logs.summary_cache import SummaryCache
from gw.api.refusals import RefusalRate, RefusalRows
from gw.api.services import LogServices, Services
from gw.app import make_application
from gw.budgets.matching import LiveNodes
from gw.calls.attribution import EndUsers
from gw.calls.chat import ChatCalls
from gw.calls.settlement import Billing
from gw.config.certificate import expires_at, renew, server_context
from gw.config.config import Config
from gw.config.credentials import check_files
from gw.config.live import LiveConfig
from gw.config.reload import changes, check_price_moves, in_force
from gw.http.admin import READY, AdminServer, Readiness, make_admin_application
from gw.http.admin_api import PROOF_VARIABLE
from gw.http.listening_sockets import check_free
from gw.http.server import Server
from gw.idempotency.guard import IdempotencyGuard
from gw.idempotency.store import ExpiredKeys, IdempotencyStore
from gw.keys.cache import KeyCache
from gw.keys.end_users import read_or_make
from gw.keys.hashing import KeyHasher
from gw.keys.issue import check_secret
from gw.keys.last_use import LastUse
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret, load_secret
from gw.knowledge.removal import keep_clean
from gw.runtime.database_pools import DatabasePools
from gw.runtime.process import (
    Ledger,
    Process,
    Store,
    make_process,
    start_events,
    start_partitions,
    start_watches,
)
from gw.runtime.pushes import Pushes
from gw.runtime.shutdown import Shutdown
from gw.webhooks.settings import settings_of
from gw.webhooks.table import unsealing
from metrics.logs import EventLog, set_level
from metrics.prometheus import Metrics
from metrics.tracing import Tracing

_LOG = EventLog("gw.serve")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Registration:
    """The process as others see it: its heartbeat, and what the database's pushes renew."""

    keys: KeyCache
    feed: ChangeFeed
    last_use: LastUse
    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listeners:
    """The servers of a process, and its client of the upstreams."""

    tls: ssl.SSLContext | None
    http: HttpClient
    public: Server
    admin: AdminServer
    console: AdminServer | None


async def start_limits(process: Process) -> None:
    """Open the link to the parent, and the limits shared with other processes."""
    parent, shared = process.memory.parent, process.memory.shared_limits
    if parent is not None:
        process.stack.push_async_callback(parent.close)
        await parent.open()
    if shared is not None:
        # Closed after all children have ended: the last requests release their slots.
        process.stack.push_async_callback(shared.close)
        await shared.start()


async def open_store(process: Process) -> Store:
    """Open and migrate the database."""
    config, stack, supervisor = process.current.config, process.stack, process.supervisor
    dsn = config.database_url
    if not dsn:
        embedded = EmbeddedPostgres(config.data_dir)
        dsn = await embedded.start()
        stack.push_async_callback(embedded.stop)
        supervisor.start("postgres", lambda: embedded.watch(process.clock))
    pools = DatabasePools(dsn, process.metrics.database)
    stack.push_async_callback(pools.close)
    process.files.add("database", pools.open_count)
    stack.push_async_callback(supervisor.stop)
    await pools.calls.open()
    await migrate(pools.calls)
    await start_partitions(process, pools.calls)
    await start_events(process, pools.calls)
    secret = load_secret(config.secret, config.data_dir, previous=config.previous_secret)
    # With another secret no stored key would be found, so the start is refused.
    sealer = KeySealer(secret)
    await check_secret(pools.calls, sealer)
    return Store(pools=pools, secret=secret, end_users=await read_or_make(pools.calls, sealer))


def start_ledger(process: Process, database: Database) -> Ledger:
    """Start the ledger's writer."""
    identity, clock, metrics = process.identity, process.clock, process.metrics
    writer = LedgerWriter(
        database=database,
        identity=identity,
        clock=clock,
        metrics=metrics,
        data_dir=process.current.config.data_dir,
    )
    writer.values.most = lambda: process.current.config.attribution.distinct_per_day
    recorder = Recorder(metrics)
    recorder.open(process.current.config.data_dir, identity.first_id)
    process.stack.callback(recorder.close)
    wallets = Wallets(
        writer=writer, database=database, clock=clock, metrics=metrics, recorder=recorder
    )
    neighbours = Neighbours(
        database=database,
        identity=identity,
        settled=wallets.settled,
        give_back=wallets.give_back,
        stop_leasing=wallets.stop_leasing,
    )
    wallets.call_back = neighbours.give_back
    process.supervisor.start("ledger", writer.run)
    return Ledger(writer=writer, wallets=wallets, neighbours=neighbours, recorder=recorder)


async def register(process: Process, store: Store, ledger: Ledger) -> Registration:
    """Register the process, and start its heartbeat, the recovery of others and their watches."""
    database, memory = store.pools.calls, process.memory
    identity, clock, metrics = process.identity, process.clock, process.metrics
    start = process.supervisor.start
    keys = KeyCache(
        database,
        KeyHasher(store.secret),
        clock,
        metrics,
        on_balance=ledger.wallets.note_balance,
    )
    memory.channels.configure(process.current.registry.channels)
    orders = ChannelOrders(database, memory.channels, clock)
    await orders.load_orders()
    start("channel_orders", orders.apply_changes)
    pushes = Pushes(
        keys=keys,
        limiter=memory.limiter,
        jobs_changed=memory.jobs_changed,
        webhooks=memory.webhooks,
        channel_changed=orders.note_change,
        served=lambda told: memory.served_models.heard(told, clock.monotonic()),
    )
    feed = ChangeFeed(
        database=database,
        identity=identity,
        clock=clock,
        on_change=pushes.take_push,
        on_gap=pushes.lost,
        on_heard=keys.vouch,
        before_reply=orders.load_orders,
        report=partial(report_of, memory.channels, identity, clock, process.metrics),
    )
    last_use = LastUse(keys=keys, database=database)
    expired_keys = ExpiredKeys(database=database, clock=clock)

    async def forget_idle() -> None:
        keys.forget_idle()
        ledger.wallets.forget_idle()
        memory.limiter.forget_idle()

    heartbeat = Heartbeat(
        identity=identity,
        database=database,
        live=memory.live,
        clock=clock,
        metrics=metrics,
        chores=(
            *(feed.send_echo, last_use.write, forget_idle, expired_keys.forget),
            partial(memory.served_models.share, feed.send),
        ),
        called_back=ledger.neighbours.called_back,
    )
    await heartbeat.beat()
    recovery = Recovery(
        heartbeat=heartbeat,
        database=database,
        wallets=ledger.wallets,
        live=memory.live,
        unsettled=ledger.writer.unsettled,
        is_process_alive=is_process_alive,
        clock=clock,
        metrics=metrics,
        data_dir=process.current.config.data_dir,
    )
    start("heartbeat", heartbeat.run)
    start("database_watch", heartbeat.watch)
    start("recovery", recovery.run)
    return Registration(keys=keys, feed=feed, last_use=last_use, heartbeat=heartbeat)


async def start_watchers(process: Process, ledger: Ledger, feed: ChangeFeed) -> None:
    """Start what listens to the database and to other processes, and the watches."""
    supervisor, shared = process.supervisor, process.memory.shared_limits
    await feed.start()
    supervisor.start("changes", feed.run)
    await ledger.neighbours.start()
    supervisor.start("neighbours", ledger.neighbours.run)
    if shared is not None:
        supervisor.start("limits", shared.run)
        if shared.permits_expire:
            supervisor.start("permits", shared.beat)
    start_watches(process, ledger.writer)


def make_endpoints(
    process: Process,
    store: Store,
    ledger: Ledger,
    keys: KeyCache,
    *,
    http: UpstreamClient,
    media_store: MediaStore | None,
) -> GatewayApplication:
    """Return the application of the endpoints, with the services that it uses."""
    current, memory, pools = process.current, process.memory, store.pools
    config, clock, metrics = current.config, process.clock, process.metrics
    tracing = Tracing.from_environment(process.environ, random.random, metrics.spans_exported)
    process.stack.callback(tracing.shutdown)
    offload = OffloadPool()
    process.stack.callback(offload.close)
    process.supervisor.start("offload", lambda: offload.tend(clock))
    end_users = EndUsers(store.end_users, lambda: current.config.attribution.end_user)
    billing = Billing(
        wallets=ledger.wallets,
        nodes=LiveNodes(pools.calls, clock, end_users),
        live=memory.live,
        current=current,
        clock=clock,
        metrics=metrics,
    )
    links = media_services.links_of(media_store, config.public_url)
    media = media_services.make_media_services(
        process, store, billing=billing, links=links, http=http, offload=offload
    )
    process.stack.push_async_callback(media.catalogs.close)
    refusals = RefusalRate(limiter=memory.limiter, clock=clock)
    process.stack.push_async_callback(refusals.close)
    bodies_bytes = max(config.max_bodies_bytes, config.max_body_bytes)
    services = Services(
        keys=keys,
        wallets=ledger.wallets,
        settled=ledger.neighbours.settled,
        limits=AccountLimits(limiter=memory.limiter, metrics=metrics),
        current=current,
        metrics=metrics,
        tracing=tracing,
        clock=clock,
        new_id=new_call_id,
        config=config,
        refusals=RefusalRows(
            wallets=ledger.wallets,
            current=current,
            clock=clock,
            metrics=metrics,
            rate=refusals,
        ).record,
        end_users=end_users,
        idempotency=IdempotencyGuard(
            kept=IdempotencyStore(pools.calls),
            response_bytes_max=config.idempotency_max_bytes,
            metrics=metrics,
        ),
        chat_calls=ChatCalls(
            billing=billing,
            channels=memory.channels,
            http=http,
            current=current,
            clock=clock,
            timeout_seconds=config.timeouts.chat,
            response_bytes_max=config.max_body_bytes,
            offload=offload,
            precharge=config.precharge,
            served_models=memory.served_models,
            metrics=metrics,
        ),
        media=media,
        logs=LogServices(
            database=pools.logs,
            rates=memory.limiter,
            credits_per_usd=config.credits_per_usd,
            cursors=CursorSeal(*store.secret.subkeys("gw log cursors")),
            summaries=SummaryCache(clock, shared=memory.parent),
        ),
        wiki=make_wiki(config, store.secret, pools.knowledge),
        agents=pools.agents,
        media_store=media_store,
        in_flight=process.in_flight,
        bodies=BodyBudget(bodies_bytes, max(bodies_bytes // 2, config.max_body_bytes)),
        answers=AnswerBudget(halves(config.max_answers_bytes, config.max_body_bytes)),
        overload=process.overload,
        offload=offload,
    )
    return make_application(services)


def start_media(
    process: Process, store: Store, wallets: Wallets, http: UpstreamClient
) -> MediaStore | None:
    """Start the poller of jobs, and the copying of their results, if that is configured."""
    poller = media_services.make_poller(process, store, settle=wallets.settle_job, http=http)
    process.supervisor.start("poller", poller.run)
    media_store = media_services.start_media_store(process, store)
    database, sources = store.pools.media, make_sources(process.current.config)
    process.supervisor.start(
        "kb_sources", lambda: keep_clean(database, sources, process.clock, process.metrics)
    )
    return media_store


def start_webhooks(process: Process, store: Store) -> None:
    """Start sending events to webhooks."""
    current = process.current

    def encode(event: Event) -> bytes:
        rendering = Rendering(credits_per_usd=current.config.credits_per_usd, redact=current.redact)
        return body_of(event, rendering.settled)

    deliverer = Deliverer(
        database=store.pools.webhooks,
        identity=process.identity,
        settings=lambda: settings_of(current.config),
        unseal=partial(unsealing, KeySealer(store.secret)),
        encode=encode,
        chance=random.random,
        nudges=process.memory.webhooks,
        clock=process.clock,
        metrics=process.metrics,
    )
    process.supervisor.start("webhooks", deliverer.run)


def make_admin(
    process: Process,
    store: Store,
    http: HttpClient,
    readiness: Readiness,
    *,
    tls: ssl.SSLContext | None,
) -> AdminServer:
    """Return the server of metrics, probes and the operators' API."""
    metrics, memory = process.metrics, process.memory
    api = make_admin_api(
        process.current,
        database=store.pools.admin,
        limiter=memory.limiter,
        channels=memory.channels,
        http=http,
        secret=store.secret,
        clock=process.clock,
        metrics=metrics,
    )
    process.stack.push_async_callback(api.close)

    async def render_metrics(accept: str) -> tuple[bytes, str]:
        # Rendering some hundred series takes tens of milliseconds; in a thread the loop is blocked
        # only for a switch interval at a time.
        return await asyncio.to_thread(metrics.render, accept)

    config = process.current.config
    application = make_admin_application(
        config,
        render=render_metrics,
        readiness=readiness,
        new_id=new_call_id,
        respond=api.respond,
        peer_proof=process.environ.get(PROOF_VARIABLE, ""),
    )
    admin = AdminServer(application, config.admin_listen, tls=tls)
    process.files.add("admin", admin.__len__)
    return admin


def make_console(
    process: Process,
    store: Store,
    ledger: Ledger,
    *,
    http: HttpClient,
    public: Server,
    tls: ssl.SSLContext | None,
) -> AdminServer | None:
    """Return the server of the console; None if it is not configured."""
    address = process.current.config.console_listen
    if address is None:
        return None
    from gw.console import application  # imported only if needed

    console = application.make_console(
        address,
        supervisor=process.supervisor,
        process_id=process.identity.first_id,
        database=store.pools.console,
        current=process.current,
        settled=ledger.neighbours.settled,
        channels=process.memory.channels,
        metrics=process.metrics,
        http=http,
        secret=store.secret,
        end_users=store.end_users,
        clock=process.clock,
        gateway_url=lambda: public.url,
        tls=tls,
        shares_port=process.shares_port,
    )
    process.files.add("console", console.__len__)
    return console


class Gateway:
    """One running gateway process."""

    def __init__(
        self,
        config: Config,
        environ: Mapping[str, str],
        *,
        shares_port: bool = False,
        parent_socket: socket.socket | None = None,
    ) -> None:
        self._process = make_process(
            config, environ, shares_port=shares_port, parent_socket=parent_socket
        )
        # Created by `start`, in this order.
        self._store: Store
        self._ledger: Ledger
        self._registration: Registration
        self._listeners: Listeners

    def __repr__(self) -> str:
        process = self._process
        return f"<Gateway {process.identity.id} {process.in_flight!r} {process.current!r}>"

    @property
    def current(self) -> LiveConfig:
        """The configuration in force."""
        return self._process.current

    @property
    def metrics(self) -> Metrics:
        """The metrics of the process."""
        return self._process.metrics

    @property
    def listen_url(self) -> str:
        """The URL of the API for clients."""
        return self._listeners.public.url

    @property
    def admin_url(self) -> str:
        """The URL of metrics and probes."""
        return self._listeners.admin.url

    @property
    def console_url(self) -> str:
        """The URL of the console; empty without one."""
        console = self._listeners.console
        return "" if console is None else self.current.config.console_url or console.url

    @property
    def database(self) -> Database:
        """The pool, for the preparation of a running gateway (`gw demo`)."""
        return self._store.pools.calls

    @property
    def secret(self) -> Secret:
        """The secret that hashes and seals keys."""
        return self._store.secret

    @property
    def failed(self) -> asyncio.Future[None]:
        """Done when a part that cannot be restarted has failed: the process must end."""
        return self._process.supervisor.failed

    async def start(self) -> None:
        """Start everything; an error stops what was started."""
        process, config = self._process, self.current.config
        self.metrics.config.started(process.clock.now())
        # Checked again when they are bound: the database is started in between.
        check_free(config.listen, "listen", shares_port=process.shares_port)
        check_free(config.admin_listen, "admin_listen")
        if config.console_listen is not None:
            check_free(config.console_listen, "console_listen", shares_port=process.shares_port)
        try:
            await start_limits(process)
            self._store = await open_store(process)
            self._ledger = start_ledger(process, self.database)
            self._registration = await register(process, self._store, self._ledger)
            await start_watchers(process, self._ledger, self._registration.feed)
            start_webhooks(process, self._store)
            await self._start_listeners()
        except BaseException:
            await process.stack.aclose()
            raise

    async def _start_listeners(self) -> None:
        process, store, ledger = self._process, self._store, self._ledger
        config = self.current.config
        http = HttpClient(connect_seconds=config.timeouts.connect, files=process.files)
        process.stack.push_async_callback(http.close)
        media_store = start_media(process, store, ledger.wallets, http)
        application = make_endpoints(
            process, store, ledger, self._registration.keys, http=http, media_store=media_store
        )
        tls = server_context(config)
        # A worker's own is for its parent alone, on this host.
        is_worker = PROOF_VARIABLE in process.environ
        admin = make_admin(process, store, http, self._readiness, tls=None if is_worker else tls)
        self.metrics.config.certificate(expires_at(config))
        check_files(config)
        public = Server(
            application,
            config.listen,
            files=process.files,
            tls=tls,
            shares_port=process.shares_port,
        )
        console = make_console(process, store, ledger, http=http, public=public, tls=tls)
        self._listeners = Listeners(tls=tls, http=http, public=public, admin=admin, console=console)
        for listener in (admin, public, console):
            if listener is not None:
                process.stack.push_async_callback(listener.close)
                await listener.start()

    def reload(self, config: Config) -> None:
        """Replace channels and models; streams in flight are not affected.

        Raises ConfigFaults, and changes nothing, if the certificate is invalid, or a price has
        changed implausibly (`gw/config/reload.py`).
        """
        check_price_moves(self.current.config, config)
        check_files(config)
        renew(self._listeners.tls, config)
        if self._listeners.tls is not None and config.tls is not None:
            self.metrics.config.certificate(expires_at(config))
        self._listeners.http.renew_certificates()
        applied = in_force(self.current.config, config)
        changed = changes(self.current.config, applied)
        self.current.swap(applied)
        self._process.memory.channels.configure(config.registry.channels)
        self._process.memory.jobs_changed.set()  # perhaps jobs of a channel that is back
        self._process.memory.webhooks.changed()
        self.metrics.config.accepted(self._process.clock.now())
        set_level(config.log_level)
        _LOG.info("configuration_reloaded", current=repr(self.current), changes=changed)

    async def stop(self) -> bool:
        """Drain: stop accepting, finish calls in flight, settle, leave (`runtime/shutdown.py`).

        Returns False when a hold may still be open, which is left to recovery.
        """
        is_settled = await Shutdown(
            in_flight=self._process.in_flight,
            public=self._listeners.public,
            writer=self._ledger.writer,
            heartbeat=self._registration.heartbeat,
            last_use=self._registration.last_use,
            supervisor=self._process.supervisor,
            clock=self._process.clock,
        ).drain(self.current.config.drain_seconds)
        await self._process.stack.aclose()
        _LOG.info("stopped")
        return is_settled

    async def _readiness(self) -> Mapping[str, str]:
        body = {"status": self._why_not_ready() or READY}
        if not self._ledger.recorder.is_up:
            body["recorder"] = "off"
        error = self._registration.heartbeat.missed_by or self._ledger.writer.cut_off_by
        if isinstance(error, DatabaseRefused):  # any other names addresses
            body["database"] = error.described
        return body

    def _why_not_ready(self) -> str | None:
        if self._process.in_flight.is_draining:
            return "draining"
        # Deregistered, or frozen for a while.
        if not self._registration.heartbeat.steady_seconds:
            return "database unreachable"
        if self._ledger.writer.cut_off_by is not None:  # heartbeats may succeed where it is refused
            return "ledger unreachable"
        if self._listeners.public.is_full:
            return "connections used up"
        if self._process.files.is_used_up:
            return "files used up"
        return None
