"""Sends one event to one address, signed, and reads what it answers: its status, little more.

Every address looked up is judged, and the connection goes to one of those judged
(`channels/http/dialer.py`). Redirects are never followed.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.clock import Clock
from actors.webhooks import retries, signature
from actors.webhooks.retries import Outcome
from actors.webhooks.targets import Targets
from channels.errors import UpstreamError
from channels.http.client import HttpClient
from channels.http.dialer import AddressRefused
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.http.transport import verifying

# Of a response's body; what is more is not read, and ends the connection.
RESPONSE_BYTES_MAX = 64 * 1024
# Until a connection is open; no more than the time of an attempt.
CONNECT_SECONDS = 10.0

_HEADERS = (("Content-Type", "application/json"),)

# One for the process: reading the system's certificates takes tens of milliseconds.
_tls = functools.cache(verifying)


@dataclass(slots=True)
class Letter:
    """An event as it is sent. `is_sent`: its request has been written to a connection.

    `ended`: its attempt has.
    """

    event_id: str
    body: bytes = b""
    written: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_sent(self) -> bool:
        return self.written.is_set()

    @is_sent.setter
    def is_sent(self, value: bool) -> None:
        if value:
            self.written.set()


class Sender:
    """Sends to one URL, over connections of its own. `secrets`: all sign, the newest first."""

    def __init__(
        self,
        url: str,
        secrets: Sequence[str],
        *,
        targets: Targets,
        seconds: float,
        clock: Clock,
    ) -> None:
        """`seconds`: of one attempt, its response included."""
        self._url = url
        self._secrets = secrets
        self._seconds = seconds
        self._clock = clock
        self._is_refused = targets.fault_of(url) is not None
        self._http = HttpClient(
            connect_seconds=min(CONNECT_SECONDS, seconds),
            tls=_tls,
            allows=targets.allowing(url),
            judges_all=True,
        )

    def __repr__(self) -> str:
        return f"<Sender {self._http!r}>"

    async def send(self, letter: Letter) -> Outcome:
        """Send once. No behaviour of the receiver raises."""
        if self._is_refused:  # by what is allowed now, if not when the URL was written
            return Outcome(retries.REFUSED_ADDRESS)
        request = UpstreamRequest(
            "POST",
            self._url,
            _HEADERS,
            letter.body,
            proof=signature.header_lines(
                self._secrets,
                event_id=letter.event_id,
                timestamp=int(self._clock.now()),
                body=letter.body,
            ),
            sender=letter,
        )
        response: UpstreamResponse | None = None
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._http.open(request)
                await _read(response)
        except AddressRefused:
            return Outcome(retries.REFUSED_ADDRESS)
        except TimeoutError:
            if response is None:
                return Outcome(retries.TIMEOUT)
        except UpstreamError:
            if response is None:
                return Outcome(retries.UNREACHABLE)
        finally:
            if response is not None:
                response.close()
        assert response is not None
        stated = retries.read_retry_after(response.header("retry-after"), self._clock.now())
        return Outcome(str(response.status), stated)

    async def close(self) -> None:
        """Abort every connection."""
        await self._http.close()


async def _read(response: UpstreamResponse) -> None:
    """Read a short body, so that its connection serves the next attempt; leave a long one."""
    size = 0
    async for piece in response.chunks():
        size += len(piece)
        if size > RESPONSE_BYTES_MAX:
            return
