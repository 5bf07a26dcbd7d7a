"""The configuration in force, and what is computed from it once: replaced whole on a reload.

A call reads what it needs at its start and keeps it; nothing here changes under a running call.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from uuid import UUID, SafeUUID

from actors.clock import Clock
from actors.limits.accounts import Limiter
from actors.limits.shared import SharedLimits
from actors.parent.link import ParentBackend, ParentLink
from actors.wallet.messages import CallFacts, Outcome
from actors.wallet.pricing import TokenPrice
from actors.wallet.wallets import Wallets
from channels.redaction import Redactor
from channels.registry import ModelSpec, Registry
from gw.api.services import RefusedCall
from gw.config.config import Config
from gw.keys.cache import KeyCache
from metrics.logs import redact
from metrics.prometheus import Metrics


class LiveConfig:
    """The registry in force with its redactor and compiled prices."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._redactor = Redactor(config.registry.channels.values())
        self._prices: dict[str, TokenPrice] = {}

    def __repr__(self) -> str:
        registry = self.config.registry
        return f"<LiveConfig {len(registry.channels)} channels {len(registry.models)} models>"

    def swap(self, config: Config) -> None:
        """Put another configuration in force: its channels and models."""
        self.config = config
        self._redactor = Redactor(config.registry.channels.values())
        self._prices = {}

    def registry(self) -> Registry:
        """Channels and models in force."""
        return self.config.registry

    def redactor(self) -> Redactor:
        """Redacts what the channels in force must not show."""
        return self._redactor

    def redact(self, text: str) -> str:
        """A message without what the channels in force must not show."""
        return self._redactor.text(text)

    def price_of(self, model: ModelSpec) -> TokenPrice:
        """The model's price, compiled once. A model of an older registry is priced afresh."""
        if self.config.registry.models.get(model.id) is not model:
            return TokenPrice.of(model.price, model.multiplier)
        price = self._prices.get(model.id)
        if price is None:
            price = self._prices[model.id] = TokenPrice.of(model.price, model.multiplier)
        return price


# What a process does when the database pushes a change (`actors/changes.py`).


class Pushes:
    """Hands each push to whom it concerns: keys and accounts, limits, jobs."""

    def __init__(self, *, keys: KeyCache, limiter: Limiter, jobs_changed: asyncio.Event) -> None:
        self._keys = keys
        self._limiter = limiter
        self._jobs_changed = jobs_changed

    def __repr__(self) -> str:
        return f"<Pushes {self._keys!r}>"

    def take(self, payload: str) -> None:
        """A change: `key:<id>`, `account:<id>`, `agent:<id>` or `job:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "job":
            self._jobs_changed.set()
            return
        self._keys.invalidate(payload)
        if kind == "account":  # perhaps it has a limit now that it had not before
            self._limiter.share(name)

    def lost(self) -> None:
        """Believe nothing known so far: pushes may have been missed."""
        self._jobs_changed.set()
        self._keys.clear()
        self._limiter.share_all()


# What the processes of a gateway share their limits through, as the configuration has it.


def make_shared_limits(
    config: Config, parent: ParentLink | None, *, process_id: str, clock: Clock, metrics: Metrics
) -> SharedLimits | None:
    """Over Redis, or else over the parent of this process; None where it has neither."""
    if config.redis_url:
        return SharedLimits.over_redis(
            config.redis_url, process_id=process_id, clock=clock, metrics=metrics
        )
    if parent is None:
        return None
    return SharedLimits(backend=ParentBackend(parent), clock=clock, metrics=metrics)


# The rows of refused calls: recorded, never charged (spec: Call log row).


class RefusalRows:
    """Writes a row for each call that was refused before it held anything."""

    def __init__(
        self,
        *,
        wallets: Wallets,
        registry: Callable[[], Registry],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._wallets = wallets
        self._registry = registry
        self._clock = clock
        self._metrics = metrics

    def record(self, refusal: RefusedCall) -> None:
        """Have the row written; waits for nothing."""
        now = self._clock.now()
        model = redact(refusal.model or "")
        known = self._registry().resolve(model)
        facts = CallFacts(
            call_id=refusal.call_id,
            account_id=refusal.principal.account_id,
            key_id=refusal.principal.key_id,
            protocol=refusal.protocol,
            model=known.id if known is not None else model,
            submitted_at=refusal.submitted_at,
        )
        seconds = max(0.0, now - refusal.submitted_at)
        self._wallets.record(
            facts,
            Outcome(
                status="rejected",
                cost_nano_usd=0,
                created_at=now,
                latency_ms=round(seconds * 1000),
                error_code=refusal.error_code,
                error_message=redact(refusal.error_message),  # it may repeat what was sent
                detail=refusal.detail,
            ),
        )
        self._metrics.call_started(refusal.protocol)
        self._metrics.call_finished(
            protocol=refusal.protocol,
            model=known.id if known is not None else "other",
            status="rejected",
            code=refusal.error_code,
            seconds=seconds,
        )


# Ids of calls: UUIDs of version 7 (RFC 9562), which sort by time and so keep the indexes tidy.

# The bits that say how the id was made, and what they say.
_FIXED = 0xF << 76 | 0x3 << 62
_VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
_set, _UNKNOWN = object.__setattr__, SafeUUID.unknown


def new_call_id() -> UUID:
    """A fresh call id; shown as 32 lower-case hex digits."""
    return make_call_id(milliseconds=time.time_ns() // 1_000_000, random_bytes=os.urandom(10))


def make_call_id(*, milliseconds: int, random_bytes: bytes) -> UUID:
    """Put a time and ten random bytes together as version 7, variant 10."""
    assert len(random_bytes) == 10
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | int.from_bytes(random_bytes)
    # As `UUID(int=…)` does it behind its checks, which are three quarters of what one costs.
    made = UUID.__new__(UUID)
    _set(made, "int", value & ~_FIXED | _VERSION_AND_VARIANT)
    _set(made, "is_safe", _UNKNOWN)
    return made
