"""One request as it came in, and what became of it. Kept in a ring for tests to look at.

No parsing of bodies here (`dialects/`), no counting (`stats.py`).
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal
from urllib.parse import parse_qsl

Outcome = Literal["active", "completed", "cut", "cancelled"]

# Enough for any single test; the byte bound keeps a load test with large images from growing.
RING_REQUESTS: Final = 1024
RING_BYTES: Final = 32 * 1024 * 1024


class Exchange:
    """A request and its fate: `active`, then `completed`, `cut` by us or `cancelled` by them."""

    __slots__ = (
        "api_key",
        "body",
        "headers",
        "is_keep_alive",
        "method",
        "outcome",
        "port",
        "protocol",
        "status",
        "target",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        body: bytes,
        port: int,
        is_keep_alive: bool,
    ) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.port = port
        self.is_keep_alive = is_keep_alive
        self.protocol = ""
        self.api_key = ""
        self.status = 0
        self.outcome: Outcome = "active"

    def __repr__(self) -> str:
        return f"<Exchange {self.method} {self.target!r} {self.status} {self.outcome}>"

    @property
    def path(self) -> str:
        return self.target.partition(b"?")[0].decode("latin-1")

    @property
    def query(self) -> str:
        return self.target.partition(b"?")[2].decode("latin-1")

    def parameters(self) -> dict[str, str]:
        """The query's names and values, the last of a name."""
        return dict(parse_qsl(self.query, keep_blank_values=True))

    def header(self, name: bytes) -> bytes:
        """The value of a header given in lower case; empty when absent."""
        for key, value in self.headers:
            if len(key) == len(name) and key.lower() == name:
                return value
        return b""

    def describe(self) -> dict[str, Any]:
        """The request as JSON: headers joined by lower-case name, and raw in their order."""
        joined: dict[str, str] = {}
        raw: list[list[str]] = []
        for key, value in self.headers:
            name, text = key.decode("latin-1"), value.decode("latin-1")
            raw.append([name, text])
            lower = name.lower()
            joined[lower] = f"{joined[lower]}, {text}" if lower in joined else text
        return {
            "method": self.method,
            "path": self.path,
            "query": self.query,
            "headers": joined,
            "raw_headers": raw,
            "body": self.body.decode("utf-8", "replace"),
            "protocol": self.protocol,
            "api_key": self.api_key,
            "status": self.status,
            "outcome": self.outcome,
        }


class Ring:
    """The most recent exchanges, oldest first, bounded in number and in body bytes."""

    def __init__(self, *, requests: int = RING_REQUESTS, body_bytes: int = RING_BYTES) -> None:
        self._limit = requests
        self._byte_limit = body_bytes
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._exchanges)

    def add(self, exchange: Exchange) -> None:
        exchanges = self._exchanges
        exchanges.append(exchange)
        self._bytes += len(exchange.body)
        # the newest stays whatever its size, so that a test always finds what it just sent
        while len(exchanges) > self._limit or (
            self._bytes > self._byte_limit and len(exchanges) > 1
        ):
            self._bytes -= len(exchanges.popleft().body)

    def last(self, count: int) -> list[Exchange]:
        """At most `count` exchanges, oldest first."""
        return list(self._exchanges)[-count:] if count > 0 else []

    def clear(self) -> None:
        self._exchanges.clear()
        self._bytes = 0
