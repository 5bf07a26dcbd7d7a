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
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from actors.actor import Supervisor
from actors.changes import ChangeFeed
from actors.clock import Clock, SystemClock
from actors.limits.accounts import AccountLimits, Limiter
from actors.media_store.worker import MediaStore
from actors.parent import ParentLink
from actors.process import ProcessIdentity, is_process_alive
from actors.recovery import Heartbeat, Recovery
from actors.routing import ChannelDirectory
from actors.store.database import Database
from actors.store.embedded.cluster import EmbeddedPostgres
from actors.store.schema import migrate
from actors.wallet.recorder import Recorder
from actors.wallet.wallets import LiveCalls, Neighbours, Wallets
from actors.wallet.writer import LedgerWriter
from channels.http.client import HttpWire
from channels.http.interfaces import Wire
from channels.offload.pool import OffloadPool
from channels.resources import BodyBudget, OpenFiles
from gw.admin.channels import ChannelOrders, report_of
from gw.admin_services import make_admin_api
from gw.api.base import GatewayApplication, new_call_id
from gw.api.logs.list_query import CursorSeal
from gw.api.logs.summary import SummaryCache
from gw.api.services import (
    LogServices,
    MediaServices,
    RefusalRows,
    Services,
    make_sources,
    make_wiki,
)
from gw.app import make_application
from gw.calls.chat import Conversation
from gw.calls.settlement import Billing
from gw.config.config import Config, LiveConfig, changes, check_prices
from gw.config.credentials import check_files, expires_at, renew, server_context
from gw.http.admin import AdminServer, make_admin_application
from gw.http.admin_api import PROOF_VARIABLE
from gw.http.application import Overload, RequestsInFlight
from gw.http.server import Server, check_free
from gw.idempotency import ExpiredKeys, IdempotencyGuard, IdempotencyStore
from gw.keys.cache import KeyCache, KeyHasher, LastUse
from gw.keys.issue import check_secret
from gw.keys.secret import KeySealer, Secret, load_secret
from gw.knowledge.importing import keep_clean
from gw.media_services import links_of, make_media_services, make_poller, start_media_store
from gw.runtime import Pools, Pushes, Shutdown, make_shared_limits, start_partitions, start_watches
from metrics.logs import EventLog, set_level
from metrics.prometheus import Metrics
from metrics.tracing import Tracing

# The public application: the services of the endpoints, from the configuration and the resources.


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The objects that run in a process before it serves."""

    keys: KeyCache
    wallets: Wallets
    settled: Callable[[str], Awaitable[None]]  # of an account, in every process
    live: LiveCalls
    limiter: Limiter
    channels: ChannelDirectory
    pools: Pools
    secret: Secret
    parent: ParentLink | None
    in_flight: RequestsInFlight
    overload: Overload
    clock: Clock
    metrics: Metrics


def make_endpoints(
    current: LiveConfig,
    resources: Resources,
    *,
    wire: Wire,
    offload: OffloadPool,
    tracing: Tracing,
    media_store: MediaStore | None,
) -> tuple[GatewayApplication, MediaServices]:
    """Return the application, and the media services, whose catalogs have to be closed."""
    config, clock, metrics = current.config, resources.clock, resources.metrics
    billing = Billing(
        wallets=resources.wallets,
        live=resources.live,
        current=current,
        clock=clock,
        metrics=metrics,
    )
    media = make_media_services(
        current,
        billing=billing,
        channels=resources.channels,
        database=resources.pools.calls,
        links=links_of(media_store, config.public_url),
        wire=wire,
        in_flight=resources.in_flight,
        secret=resources.secret,
        clock=clock,
        metrics=metrics,
    )
    services = Services(
        keys=resources.keys,
        wallets=resources.wallets,
        settled=resources.settled,
        limits=AccountLimits(limiter=resources.limiter, metrics=metrics),
        current=current,
        metrics=metrics,
        tracing=tracing,
        clock=clock,
        new_id=new_call_id,
        config=config,
        refusals=RefusalRows(
            wallets=resources.wallets, current=current, clock=clock, metrics=metrics
        ).record,
        idempotency=IdempotencyGuard(
            kept=IdempotencyStore(resources.pools.calls),
            response_bytes_max=config.idempotency_max_bytes,
            metrics=metrics,
        ),
        conversation=Conversation(
            billing=billing,
            channels=resources.channels,
            wire=wire,
            current=current,
            clock=clock,
            timeout_seconds=config.timeouts.chat,
            response_bytes_max=config.max_body_bytes,
            offload=offload,
            precharge=config.precharge,
            metrics=metrics,
        ),
        media=media,
        logs=LogServices(
            database=resources.pools.logs,
            rates=resources.limiter,
            credits_per_usd=config.credits_per_usd,
            cursors=CursorSeal(*resources.secret.subkeys("gw log cursors")),
            summaries=SummaryCache(clock, shared=resources.parent),
        ),
        wiki=make_wiki(config, resources.secret, resources.pools.knowledge),
        agents=resources.pools.agents,
        media_store=media_store,
        in_flight=resources.in_flight,
        bodies=BodyBudget(max(config.max_bodies_bytes, config.max_body_bytes)),
        overload=resources.overload,
        offload=offload,
    )
    return make_application(services), media


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
        self._shares_port = shares_port
        self.current = LiveConfig(config)
        self.metrics = Metrics()
        self._files = OpenFiles(self.metrics.files)
        self.in_flight = RequestsInFlight()
        self._overload = Overload(config.shed_delay_ms / 1000 if config.shed_delay_ms else None)
        self._environ = environ
        self._clock = SystemClock()
        self._log = EventLog("gw.serve")
        self._stack = AsyncExitStack()
        self._supervisor = Supervisor(clock=self._clock, metrics=self.metrics)
        self._identity = ProcessIdentity.of_this_process(f"proc_{uuid.uuid4().hex[:20]}")
        self._live = LiveCalls()
        self._jobs_changed = asyncio.Event()  # a job was, or may have been, accepted
        self._parent = None if parent_socket is None else ParentLink(parent_socket)
        self._shared_limits = make_shared_limits(
            config,
            self._parent,
            process_id=self._identity.id,
            clock=self._clock,
            metrics=self.metrics,
        )
        self._limiter = Limiter(clock=self._clock, shared=self._shared_limits)
        self._channels = ChannelDirectory(
            supervisor=self._supervisor, clock=self._clock, metrics=self.metrics
        )
        # Created by `_start`, in this order.
        self._database: Database
        self._pools: Pools
        self._secret: Secret
        self._keys: KeyCache
        self._feed: ChangeFeed
        self._last_use: LastUse
        self._writer: LedgerWriter
        self._wallets: Wallets
        self._neighbours: Neighbours
        self._heartbeat: Heartbeat
        self._tls: ssl.SSLContext | None
        self._wire: HttpWire
        self._public: Server
        self._admin: AdminServer
        self._console: AdminServer | None

    def __repr__(self) -> str:
        return f"<Gateway {self._identity.id} {self.in_flight!r} {self.current!r}>"

    @property
    def listen_url(self) -> str:
        """The URL of the API for clients."""
        return self._public.url

    @property
    def admin_url(self) -> str:
        """The URL of metrics and probes."""
        return self._admin.url

    @property
    def console_url(self) -> str:
        """The URL of the console; empty without one."""
        if self._console is None:
            return ""
        return self.current.config.console_url or self._console.url

    @property
    def database(self) -> Database:
        """The pool, for the preparation of a running gateway (`gw demo`)."""
        return self._database

    @property
    def secret(self) -> Secret:
        """The secret that hashes and seals keys."""
        return self._secret

    @property
    def failed(self) -> asyncio.Future[None]:
        """Done when a part that cannot be restarted has failed: the process must end."""
        return self._supervisor.failed

    async def start(self) -> None:
        """Start everything; an error stops what was started."""
        config = self.current.config
        self.metrics.config.started(self._clock.now())
        # Checked again when they are bound: the database is started in between.
        check_free(config.listen, "listen", shares_port=self._shares_port)
        check_free(config.admin_listen, "admin_listen")
        if config.console_listen is not None:
            check_free(config.console_listen, "console_listen", shares_port=self._shares_port)
        try:
            await self._start_limits()
            await self._start_store()
            self._start_ledger()
            await self._start_heartbeat()
            await self._start_watchers()
            await self._start_listeners()
        except BaseException:
            await self._stack.aclose()
            raise

    def reload(self, config: Config) -> None:
        """Replace channels and models; streams in flight are not affected.

        Raises ConfigFaults, and changes nothing, if the certificate is invalid, or a price has
        changed implausibly (`gw/config/config.py`).
        """
        check_prices(self.current.config, config)
        check_files(config)
        renew(self._tls, config)
        if self._tls is not None and config.tls is not None:
            self.metrics.config.certificate(expires_at(config))
        self._wire.renew_certificates()
        changed = changes(self.current.config, config)
        self.current.swap(config)
        self._channels.configure(config.registry.channels)
        self._jobs_changed.set()  # perhaps jobs of a channel that is back
        self.metrics.config.accepted(self._clock.now())
        set_level(config.log_level)
        self._log.info("configuration_reloaded", current=repr(self.current), changes=changed)

    async def stop(self) -> bool:
        """Drain: stop accepting, finish calls in flight, settle, leave (`runtime.py`).

        Returns False when a hold may still be open, which is left to recovery.
        """
        is_settled = await Shutdown(
            in_flight=self.in_flight,
            public=self._public,
            writer=self._writer,
            heartbeat=self._heartbeat,
            last_use=self._last_use,
            supervisor=self._supervisor,
            clock=self._clock,
        ).drain(self.current.config.drain_seconds)
        await self._stack.aclose()
        self._log.info("stopped")
        return is_settled

    # --- Start, in order ---

    async def _start_limits(self) -> None:
        if self._parent is not None:
            self._stack.push_async_callback(self._parent.close)
            await self._parent.open()
        shared = self._shared_limits
        if shared is not None:
            # Closed after all children have ended: the last requests release their slots.
            self._stack.push_async_callback(shared.close)
            await shared.start()

    async def _start_store(self) -> None:
        config, stack = self.current.config, self._stack
        dsn = config.database_url
        if not dsn:
            embedded = EmbeddedPostgres(config.data_dir)
            dsn = await embedded.start()
            stack.push_async_callback(embedded.stop)
            self._supervisor.start("postgres", lambda: embedded.watch(self._clock))
        self._pools = Pools(dsn, self.metrics.database)
        stack.push_async_callback(self._pools.close)
        self._files.add("database", self._pools.open_count)
        self._database = self._pools.calls
        stack.push_async_callback(self._supervisor.stop)
        await self._database.open()
        await migrate(self._database)
        await start_partitions(
            self._supervisor, self._database, self.current, self._clock, self.metrics
        )

    def _start_ledger(self) -> None:
        self._writer = LedgerWriter(
            database=self._database,
            identity=self._identity,
            clock=self._clock,
            metrics=self.metrics,
        )
        recorder = Recorder(self.metrics)
        recorder.open(self.current.config.data_dir, self._identity.first_id)
        self._stack.callback(recorder.close)
        self._wallets = Wallets(
            writer=self._writer,
            database=self._database,
            clock=self._clock,
            metrics=self.metrics,
            recorder=recorder,
        )
        self._supervisor.start("ledger", self._writer.run)
        self._channels.configure(self.current.registry.channels)

    async def _start_heartbeat(self) -> None:
        config = self.current.config
        self._secret = load_secret(config.secret, config.data_dir, previous=config.previous_secret)
        # With another secret no stored key would be found, so the start is refused.
        await check_secret(self._database, KeySealer(self._secret))
        self._keys = KeyCache(
            self._database,
            KeyHasher(self._secret),
            self._clock,
            self.metrics,
            on_balance=self._wallets.note_balance,
        )
        orders = ChannelOrders(self._database, self._channels, self._clock)
        await orders.load()
        self._supervisor.start("channel_orders", orders.run)
        pushes = Pushes(
            keys=self._keys,
            limiter=self._limiter,
            jobs_changed=self._jobs_changed,
            channel_changed=orders.changed,
        )
        self._feed = ChangeFeed(
            database=self._database,
            identity=self._identity,
            clock=self._clock,
            on_change=pushes.take,
            on_gap=pushes.lost,
            on_heard=self._keys.vouch,
            before_reply=orders.load,
            report=partial(report_of, self._channels, self._identity, self._clock),
        )
        self._last_use = LastUse(keys=self._keys, database=self._database)
        expired_keys = ExpiredKeys(database=self._database, clock=self._clock)
        self._heartbeat = Heartbeat(
            identity=self._identity,
            database=self._database,
            live=self._live,
            clock=self._clock,
            metrics=self.metrics,
            chores=(
                self._feed.send_echo,
                self._last_use.write,
                self._forget_idle,
                expired_keys.forget,
            ),
        )
        await self._heartbeat.beat()
        recovery = Recovery(
            heartbeat=self._heartbeat,
            database=self._database,
            wallets=self._wallets,
            live=self._live,
            unsettled=self._writer.unsettled,
            is_process_alive=is_process_alive,
            clock=self._clock,
            metrics=self.metrics,
            data_dir=self.current.config.data_dir,
        )
        self._supervisor.start("heartbeat", self._heartbeat.run)
        self._supervisor.start("database_watch", self._heartbeat.watch)
        self._supervisor.start("recovery", recovery.run)

    async def _start_watchers(self) -> None:
        await self._feed.start()
        self._supervisor.start("changes", self._feed.run)
        self._neighbours = Neighbours(
            database=self._database,
            identity=self._identity,
            settled=self._wallets.settled,
            give_back=self._wallets.give_back,
        )
        self._wallets.call_back = self._neighbours.give_back
        await self._neighbours.start()
        self._supervisor.start("neighbours", self._neighbours.run)
        if self._shared_limits is not None:
            self._supervisor.start("limits", self._shared_limits.run)
            if self._shared_limits.permits_expire:
                self._supervisor.start("permits", self._shared_limits.beat)
        start_watches(
            self._supervisor,
            overload=self._overload,
            writer=self._writer,
            in_flight=self.in_flight,
            clock=self._clock,
            metrics=self.metrics,
        )

    async def _start_listeners(self) -> None:
        config = self.current.config
        tracing = Tracing.from_environment(
            self._environ, random.random, self.metrics.spans_exported
        )
        self._stack.callback(tracing.shutdown)
        offload = OffloadPool()
        self._stack.callback(offload.close)
        self._supervisor.start("offload", lambda: offload.tend(self._clock))
        wire = self._wire = HttpWire(connect_seconds=config.timeouts.connect, files=self._files)
        self._stack.push_async_callback(wire.close)
        poller = make_poller(
            self.current,
            name=self._identity.first_id,
            database=self._pools.jobs,
            wallets=self._wallets,
            wire=wire,
            secret=self._secret,
            clock=self._clock,
            metrics=self.metrics,
            changed=self._jobs_changed,
        )
        self._supervisor.start("poller", poller.run)
        media_store = start_media_store(
            self._supervisor, self._pools, self.current, self._secret, self._clock, self.metrics
        )
        sources = make_sources(config)
        self._supervisor.start(
            "kb_sources",
            lambda: keep_clean(self._pools.media, sources, self._clock, self.metrics),
        )
        application, media = make_endpoints(
            self.current,
            Resources(
                keys=self._keys,
                wallets=self._wallets,
                settled=self._neighbours.settled,
                live=self._live,
                limiter=self._limiter,
                channels=self._channels,
                pools=self._pools,
                secret=self._secret,
                parent=self._parent,
                in_flight=self.in_flight,
                overload=self._overload,
                clock=self._clock,
                metrics=self.metrics,
            ),
            wire=wire,
            offload=offload,
            tracing=tracing,
            media_store=media_store,
        )
        self._stack.push_async_callback(media.catalogs.close)
        api = make_admin_api(
            self.current,
            database=self._pools.admin,
            limiter=self._limiter,
            channels=self._channels,
            wire=wire,
            secret=self._secret,
            clock=self._clock,
            metrics=self.metrics,
        )
        self._stack.push_async_callback(api.close)
        admin = make_admin_application(
            config,
            render=self._render_metrics,
            readiness=self._why_not_ready,
            new_id=new_call_id,
            respond=api.respond,
            peer_proof=self._environ.get(PROOF_VARIABLE, ""),
        )
        self._admin = AdminServer(admin, config.admin_listen)
        self._files.add("admin", self._admin.__len__)
        self._tls = server_context(config)
        self.metrics.config.certificate(expires_at(config))
        check_files(config)
        self._public = Server(
            application,
            config.listen,
            files=self._files,
            tls=self._tls,
            shares_port=self._shares_port,
        )
        self._console = self._make_console(wire)
        for listener in (self._admin, self._public, self._console):
            if listener is not None:
                self._stack.push_async_callback(listener.close)
                await listener.start()

    def _make_console(self, wire: HttpWire) -> AdminServer | None:
        """Return the server of the console; None if it is not configured."""
        address = self.current.config.console_listen
        if address is None:
            return None
        from gw.console.application import make_console  # imported only if needed

        console = make_console(
            address,
            supervisor=self._supervisor,
            process_id=self._identity.first_id,
            database=self._pools.console,
            current=self.current,
            settled=self._neighbours.settled,
            channels=self._channels,
            metrics=self.metrics,
            wire=wire,
            secret=self._secret,
            clock=self._clock,
            gateway_url=lambda: self.listen_url,
            tls=self._tls,
            shares_port=self._shares_port,
        )
        self._files.add("console", console.__len__)
        return console

    # --- Background work ---

    async def _forget_idle(self) -> None:
        self._keys.forget_idle()
        self._wallets.forget_idle()
        self._limiter.forget_idle()

    async def _render_metrics(self, accept: str) -> tuple[bytes, str]:
        # Rendering some hundred series takes tens of milliseconds; in a thread the loop is blocked
        # only for a switch interval at a time.
        return await asyncio.to_thread(self.metrics.render, accept)

    async def _why_not_ready(self) -> str | None:
        if self.in_flight.is_draining:
            return "draining"
        if not self._heartbeat.steady_seconds:  # deregistered, or frozen for a while
            return "database unreachable"
        if self._public.is_full:
            return "connections used up"
        if self._files.is_used_up:
            return "files used up"
        return None
