"""What becomes of the copies of results."""

from __future__ import annotations

from metrics.families import Families


class MediaStoreMetrics:
    """Attempts by how they end, and what they fetched."""

    def __init__(self, make: Families) -> None:
        self._copies = make.counter("gw_media_copies_total")
        self._bytes = make.counter("gw_media_copy_bytes_total")[()]

    def copied(self, outcome: str) -> None:
        """An attempt is over: kept, retried, failed or left."""
        self._copies[(outcome,)].value += 1

    def bytes(self, count: int) -> None:
        """So many bytes have come."""
        self._bytes.value += count
