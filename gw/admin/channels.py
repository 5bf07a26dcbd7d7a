"""An operator's functions of channels: state in every process, withdrawal, test.

Breaker, slots and suspended keys belong to each process and are collected from all of them
(`actors/changes.py`). A withdrawal applies to all processes, and after a restart.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct

from actors.changes import reports_of_all
from actors.channel import ChannelActor
from actors.clock import Clock
from actors.process import ProcessIdentity
from actors.routing import ChannelDirectory
from actors.store.connection import StoreError
from actors.store.database import Database, Session, Statements
from channels.authorizers.authorizers import authorizer_of
from channels.dialects.dialect import Address
from channels.dialects.error_body import error_members
from channels.dialects.table import DIALECTS
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamClient, UpstreamRequest
from channels.kinds import KINDS
from channels.redaction import Redactor
from channels.registry import ChannelSpec, Registry, bearer, credentials_of
from gw.admin import audit
from gw.admin.audit import SQL, Actor
from gw.admin.values import Instant, Refused
from metrics.logs import EventLog

# A cheap request that tests a channel's address and key: its list of models.
#
# It is free at every provider that has one. Any other response proves at least that a server
# responds; its text is shown to the operator.

# The longest known list, with a description of each model, has about a megabyte.
LIST_BYTES_MAX = 8 * 1024 * 1024
# The member that holds the list, and the member with a model's name.
_LISTS = (
    ("data", "id"),
    ("models", "name"),
    ("publisherModels", "name"),
    ("modelSummaries", "modelId"),
)
_BEARER = Address(path="", key=bearer)


class Probe(Struct, frozen=True):
    """The result. `status` is None without a response; `models` if it is no list of models.

    `message` is the upstream's or the failure, without keys and hosts of any channel.
    """

    status: int | None
    message: str
    models: tuple[str, ...] | None = None

    @property
    def is_good(self) -> bool:
        """Whether the key was accepted."""
        return self.status is not None and 200 <= self.status < 300


async def probe(
    channel: ChannelSpec, http: UpstreamClient, redactor: Redactor, *, timeout_seconds: float
) -> Probe:
    """Request the list of models. No behaviour of the upstream raises."""
    try:
        async with asyncio.timeout(timeout_seconds):
            response = await http.open(models_request(channel))
            try:
                body = await response.read(LIST_BYTES_MAX)
            finally:
                response.close()
    except TimeoutError:
        return Probe(None, f"no answer in {timeout_seconds:g} seconds")
    except UpstreamError as error:
        return Probe(None, redactor.text(f"{error} {error.detail}"))
    models = _models(body) if 200 <= response.status < 300 else None
    message = _message(response.status, error_members(body).message, models)
    return Probe(response.status, redactor.text(message), models)


def models_request(channel: ChannelSpec) -> UpstreamRequest:
    """Return the request, in the form of the channel's first protocol."""
    spoken = (one.address for protocol, one in DIALECTS.items() if protocol in channel.protocols)
    address = next(spoken, _BEARER)
    kind = KINDS.get(channel.kind)
    path = kind.models_path if kind is not None else address.models_path
    base_url = channel.base_url if kind is None else channel.base_url.replace(*kind.models_host)
    credentials = credentials_of(channel, address.key, channel.api_key)
    headers = (
        *credentials.key_headers,
        *credentials.others(address.own),
        ("Accept", "application/json"),
        *credentials.fixed,
    )
    url = credentials.url(base_url + path)
    return UpstreamRequest(
        "GET", url, headers, b"", channel.transport, authorizer=authorizer_of(channel)
    )


def _message(status: int, upstream: str | None, models: tuple[str, ...] | None) -> str:
    if models is not None:
        return f"{len(models)} models"
    if status in (404, 405):
        return "something answers there, and has no list of models; the key was not tried"
    return upstream or "nothing that says why"


def _models(body: bytes) -> tuple[str, ...] | None:
    """Return the names in a list of any known form, or None."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, list):  # of Together, a bare list
        return tuple(_names(value, "id"))
    if not isinstance(value, dict):
        return None
    for members, name in _LISTS:
        if isinstance(listed := value.get(members), list):
            return tuple(_names(listed, name))
    return None


def _names(listed: list[Any], name: str) -> Iterable[str]:
    for one in listed:
        if isinstance(one, dict) and isinstance(found := one.get(name), str):
            yield found.removeprefix("publishers/google/").removeprefix("models/")


PROBE_SECONDS = 20.0
# The timeout of the processes' reports, and the time for which they are cached.
REPORT_SECONDS = 2.0
FRESH_SECONDS = 1.0
RETRY_SECONDS = 1.0

Order = Literal["draining", "closed"]


class KeyOfRing(Struct, frozen=True):
    """One key of a channel, by its index in the configuration. `aside_until`: null if in use."""

    number: int
    aside_until: Instant | None


class ChannelInProcess(Struct, frozen=True):
    """A channel's state in one process.

    `breaker` is closed, open or half_open; `open_until` is the end of its cooldown. `withdrawn`: it
    grants no lease, by an operator's order.
    """

    process_id: str
    host: str
    pid: int
    breaker: str
    failures: int
    open_until: Instant | None
    slots_in_use: int
    slots_limit: int
    withdrawn: bool
    keys: list[KeyOfRing]


class ChannelView(Struct, frozen=True):
    """A channel's state in every process.

    `state`: open_for_calls, draining (out of service, calls under way), drained, closed. `health`:
    ok, degraded (not in every process) or down, by breakers and keys. `silent_processes` have not
    reported in time.
    """

    id: str
    state: str
    health: str
    ordered_at: Instant | None
    ordered_by: str | None
    kind: str
    protocols: list[str]
    priority: int
    slots_in_use: int
    slots_limit: int
    keys: int
    keys_aside: int
    models: list[str]
    processes: list[ChannelInProcess]
    silent_processes: list[str]


class ChannelTest(Struct, frozen=True):
    """A channel's response to a request for its list of models.

    `models`: their number; `not_listed`: configured models missing from it.
    """

    channel: str
    ok: bool
    status: int | None
    message: str
    models: int | None
    not_listed: list[str]


class Reported(Struct, frozen=True):
    """The report of one process."""

    host: str
    pid: int
    channels: dict[str, dict[str, Any]]


def report_of(channels: ChannelDirectory, identity: ProcessIdentity, clock: Clock) -> str:
    """Return this process's report of its channels, in ASCII."""
    now, monotonic = datetime.now(UTC), clock.monotonic()
    reported = Reported(
        host=identity.host,
        pid=identity.pid,
        channels={
            channel_id: _facts(actor, now, monotonic) for channel_id, actor in channels.items()
        },
    )
    return json.dumps(msgspec.to_builtins(reported), separators=(",", ":"))


def _facts(actor: ChannelActor, now: datetime, monotonic: float) -> dict[str, Any]:
    cooldown = actor.cooldown_seconds
    return {
        "breaker": actor.health.state,
        "failures": actor.health.failures,
        "open_until": now + timedelta(seconds=cooldown) if cooldown else None,
        "slots_in_use": actor.in_use,
        "slots_limit": actor.spec.max_concurrency,
        "withdrawn": actor.is_withdrawn,
        "keys": [
            {
                "number": key.number,
                "aside_until": now + timedelta(seconds=key.aside_until - monotonic)
                if key.aside_until > monotonic
                else None,
            }
            for key in actor.spec.ring.keys
        ],
    }


class ChannelStates:
    """The channels of all processes, from recent reports."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reports: dict[str, Reported | None] = {}
        self._good_until = 0.0
        self._asking = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<ChannelStates of {len(self._reports)} processes>"

    async def all(self, registry: Registry) -> list[ChannelView]:
        """Return every channel of the configuration, in its order. Raises StoreUnavailable."""
        reports = await self._fresh()
        orders = await orders_of(self._database)
        return [_view(spec, registry, reports, orders) for spec in registry.channels.values()]

    async def show(self, registry: Registry, channel_id: str) -> ChannelView:
        """Return one channel. Raises Refused, StoreUnavailable."""
        spec = find(registry, channel_id)
        return _view(spec, registry, await self._fresh(), await orders_of(self._database))

    def forget(self) -> None:
        """Drop cached reports after a change."""
        self._good_until = 0.0

    async def _fresh(self) -> Mapping[str, Reported | None]:
        async with self._asking:
            if time.monotonic() >= self._good_until:
                texts = await reports_of_all(
                    self._database,
                    token=secrets.token_hex(8),
                    timeout_seconds=REPORT_SECONDS,
                )
                self._reports = {
                    process_id: None if text is None else msgspec.json.decode(text, type=Reported)
                    for process_id, text in texts.items()
                }
                self._good_until = time.monotonic() + FRESH_SECONDS
            return self._reports


Orders = Mapping[str, tuple[Order, datetime, str]]


async def orders_of(store: Statements) -> Orders:
    """Return the withdrawn channels: state, time and operator."""
    return {
        row[0]: (row[1], row[2], row[3]) for row in await store.fetch_all(SQL["channel_orders"])
    }


def find(registry: Registry, channel_id: str) -> ChannelSpec:
    """Return a channel of the configuration. Raises Refused."""
    spec = registry.channels.get(channel_id)
    if spec is None:
        raise Refused(f"there is no channel {channel_id}", "channel_not_found", http_status=404)
    return spec


def _view(
    spec: ChannelSpec, registry: Registry, reports: Mapping[str, Reported | None], orders: Orders
) -> ChannelView:
    processes = [
        msgspec.convert(
            {
                "process_id": process_id,
                "host": one.host,
                "pid": one.pid,
                **one.channels[spec.id],
            },
            ChannelInProcess,
        )
        for process_id, one in sorted(reports.items())
        if one is not None and spec.id in one.channels
    ]
    order, ordered_at, ordered_by = orders.get(spec.id, (None, None, None))
    in_use = sum(one.slots_in_use for one in processes)
    return ChannelView(
        id=spec.id,
        state=state_of(order, in_use),
        health=_health(processes),
        ordered_at=ordered_at,
        ordered_by=ordered_by,
        kind=spec.kind,
        protocols=sorted(spec.protocols),
        priority=spec.priority,
        slots_in_use=in_use,
        slots_limit=sum(one.slots_limit for one in processes),
        keys=len(spec.keys),
        keys_aside=max((_aside(one) for one in processes), default=0),
        models=[
            model.id
            for model in registry.models.values()
            if any(binding.channel_id == spec.id for binding in model.bindings)
        ],
        processes=processes,
        silent_processes=sorted(name for name, one in reports.items() if one is None),
    )


def state_of(order: Order | None, in_use: int) -> str:
    """Return a channel's state by its order and its calls under way."""
    if order is None:
        return "open_for_calls"
    return "drained" if order == "draining" and not in_use else order


def _health(processes: Sequence[ChannelInProcess]) -> str:
    good = [one.breaker == "closed" and _aside(one) < len(one.keys) for one in processes]
    if all(good):
        return "ok"
    return "degraded" if any(good) else "down"


def _aside(one: ChannelInProcess) -> int:
    return sum(key.aside_until is not None for key in one.keys)


# Orders: stored for all processes, and applied by each.


async def order(
    session: Session, actor: Actor, registry: Registry, channel_id: str, state: Order
) -> None:
    """Withdraw a channel in every process; calls under way finish. Raises Refused."""
    find(registry, channel_id)
    by = f"{actor.kind} {actor.name}"
    await session.execute(SQL["order_channel"], {"id": channel_id, "state": state, "by": by})
    action = "channel.drain" if state == "draining" else "channel.close"
    await audit.note(session, actor, action, channel_id)


async def reopen(session: Session, actor: Actor, registry: Registry, channel_id: str) -> None:
    """Reopen a channel, and reset its breaker and keys.

    Raises Refused.
    """
    find(registry, channel_id)
    await session.fetch_all(SQL["open_channel"], {"id": channel_id})
    await audit.note(session, actor, "channel.open", channel_id)


class ChannelOrders:
    """Applies the stored orders to the channels of this process."""

    def __init__(self, database: Database, channels: ChannelDirectory, clock: Clock) -> None:
        self._database = database
        self._channels = channels
        self._clock = clock
        self._reading = asyncio.Lock()
        self._changed = asyncio.Event()
        self._stale: set[str] = {""}  # the changed channels; all of them at first
        self._log = EventLog("gw.admin")

    def __repr__(self) -> str:
        return f"<ChannelOrders {'stale' if self._stale else 'in force'}>"

    def changed(self, channel_id: str = "") -> None:
        """Mark a channel whose change was pushed, or may have been missed."""
        self._stale.add(channel_id)
        self._changed.set()

    async def load(self) -> None:
        """Return when earlier pushes are applied. Raises StoreUnavailable."""
        async with self._reading:
            stale, self._stale = self._stale, set()
            if not stale:
                return
            try:
                orders = await orders_of(self._database)
            except BaseException:
                self._stale |= stale
                raise
            self._channels.withdraw(orders, reopened=stale - orders.keys())

    async def run(self) -> None:
        """Apply pushed changes until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self.load()
            except StoreError as error:
                self._log.warning("channel_orders_unread", error=str(error))
                await self._clock.sleep(RETRY_SECONDS)
                self._changed.set()


# The test of a channel by one cheap request.


async def tested(
    spec: ChannelSpec, registry: Registry, http: UpstreamClient, redactor: Redactor
) -> ChannelTest:
    """Request a channel's list of models. No behaviour of the upstream raises."""
    found = await probe(spec, http, redactor, timeout_seconds=PROBE_SECONDS)
    listed = set(found.models or ())
    missing = [name for name in _asked_for(registry, spec.id) if name not in listed]
    return ChannelTest(
        channel=spec.id,
        ok=found.is_good,
        status=found.status,
        message=found.message,
        models=None if found.models is None else len(found.models),
        not_listed=missing if found.models is not None else [],
    )


def _asked_for(registry: Registry, channel_id: str) -> list[str]:
    """Return the upstream names of a channel's models."""
    return [
        bound.upstream_model or model.id
        for model in registry.models.values()
        for bound in model.bindings
        if bound.channel_id == channel_id
    ]
