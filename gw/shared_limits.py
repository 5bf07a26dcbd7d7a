"""What the processes of a gateway share their limits through, as the configuration has it."""

from __future__ import annotations

from actors.clock import Clock
from actors.limits.parent import ParentBackend
from actors.limits.shared import SharedLimits
from actors.parent.link import ParentLink
from gw.config.config import Config
from metrics.prometheus import Metrics


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
