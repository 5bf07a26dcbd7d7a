"""Instants of HTTP headers (RFC 9110, 5.6.7), as whoever answers writes them."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime


def read_http_date(text: str) -> float | None:
    """Return Unix seconds; None for a text that is no instant."""
    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, IndexError, OverflowError):  # the last two of numbers it does not expect
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return instant.timestamp()
