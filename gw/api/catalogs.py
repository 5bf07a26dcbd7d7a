"""What a client is told when no upstream tells what it lists."""

from __future__ import annotations

from collections.abc import Callable

from actors.catalogs.catalogs import CatalogUnavailable
from gw.errors.table import NO_CHANNEL_AVAILABLE, GatewayError, from_upstream


def unavailable(failure: CatalogUnavailable, redact: Callable[[str], str]) -> GatewayError:
    """The upstream's status and words; 503 where no channel has such a list at all."""
    reply = failure.reply
    if reply is None:
        return GatewayError(NO_CHANNEL_AVAILABLE, "No channel lists this.")
    message = redact(reply.message) if reply.message else "The upstream did not tell."
    headers = {"Retry-After": reply.retry_after} if reply.retry_after else {}
    return from_upstream(reply.status, message, headers=headers)
