"""Takes in a request body within a bound, and lets a refused one run out.

Sans I/O: the handler (`base.py`) feeds what arrives. Neither class holds more than the bound, and
what a refused client still sends is counted and dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from gw.web.errors import INVALID_REQUEST, REQUEST_TOO_LARGE, GatewayError

# A client that has been refused goes on sending: most libraries read the answer only when all of
# the body is out, and closing under them turns the answer into a broken pipe. So the rest is read
# and dropped, this many times the accepted size and this long (nginx, lingering_close: 30 s).
LINGER_FACTOR = 2
LINGER_SECONDS = 30.0
# A rest this small is not worth a new connection: it is read, and the connection is kept.
KEEP_ALIVE_BYTES = 64 * 1024


class InboundBody:
    """The body of one request, as it comes in, at most `limit_bytes` long."""

    __slots__ = ("_chunks", "_limit_bytes", "_received_bytes")

    def __init__(self, headers: Mapping[str, str], limit_bytes: int) -> None:
        """Raises GatewayError at once when the headers alone tell that it will not do."""
        self._chunks: list[bytes] = []
        self._limit_bytes = limit_bytes
        self._received_bytes = 0
        encoding = headers.get("Content-Encoding")
        if encoding is not None and encoding.strip().lower() not in ("", "identity"):
            # Unpacking would let a few bytes on the wire become many in memory, and the byte count
            # of the pre-charge would no longer be what the client sent.
            raise GatewayError(
                INVALID_REQUEST,
                "Compressed request bodies are not accepted: send the body without"
                " Content-Encoding.",
            )
        declared = declared_bytes(headers)
        if declared is not None and declared > limit_bytes:
            raise too_large(limit_bytes)

    def feed(self, chunk: bytes) -> None:
        """Take one piece. Raises GatewayError, and forgets all, when it is one too many."""
        self._received_bytes += len(chunk)
        if self._received_bytes > self._limit_bytes:
            self._chunks.clear()
            raise too_large(self._limit_bytes)
        self._chunks.append(chunk)

    def take(self) -> bytes:
        """The whole body; it is not kept here any longer."""
        chunks, self._chunks = self._chunks, []
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class Leftover:
    """What a refused client still sends: counted, dropped, and not for ever."""

    __slots__ = (
        "_bound_bytes",
        "_dropped_bytes",
        "is_expected",
        "is_held_back",
        "keeps_connection",
    )

    def __init__(self, headers: Mapping[str, str], limit_bytes: int) -> None:
        self._bound_bytes = LINGER_FACTOR * limit_bytes
        self._dropped_bytes = 0
        declared = declared_bytes(headers) or 0
        is_open_ended = "Transfer-Encoding" in headers
        # A client that waits for "100 Continue" sends nothing once it has a final answer, and must
        # not get the 100 after it.
        self.is_held_back = headers.get("Expect", "").strip().lower() == "100-continue"
        self.is_expected = is_open_ended or declared > 0
        self.keeps_connection = not (
            self.is_held_back or is_open_ended or declared > KEEP_ALIVE_BYTES
        )

    def drop(self, chunk: bytes) -> bool:
        """Count a piece; False when there has been enough of it."""
        self._dropped_bytes += len(chunk)
        return self._dropped_bytes <= self._bound_bytes


def declared_bytes(headers: Mapping[str, str]) -> int | None:
    """The declared length of the body. The headers have passed `framing.py`."""
    value = headers.get("Content-Length")
    return None if value is None else int(value)


def too_large(limit_bytes: int) -> GatewayError:
    """The body exceeds the configured bound (contract §5)."""
    limit_mb = limit_bytes / (1024 * 1024)
    return GatewayError(
        REQUEST_TOO_LARGE, f"The request body is larger than the {limit_mb:g} MB accepted here."
    )
