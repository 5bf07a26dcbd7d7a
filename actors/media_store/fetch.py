"""Reads a result from the upstream's link, from any byte on.

Redirects are followed a few times, each address checked again (`channels/address_scope.py`);
credentials are sent to the channel's own origin only. Data is yielded in pieces, and reading stops
after the client has left.
"""

from __future__ import annotations

import asyncio
import functools
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

from channels import errors
from channels.address_scope import allowing
from channels.http.client import HttpClient
from channels.http.dialer import AddressRefused
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.http.origin import address_of
from channels.http.transport import Transport, verifying

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0  # before the head and between two pieces
# Waiting for the upstream so long must bring so many bytes: else others of its place's go first.
PACE_SECONDS: Final = 60.0
PACE_BYTES: Final = 60 * 4096
REDIRECTS_MAX: Final = 5
RETRY_AFTER_MAX: Final = 900.0
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
ATTEMPTS_MAX: Final = 40
GONE_ATTEMPTS: Final = 3  # a storage may not have it yet when its link is sent
# Statuses that will hardly change on a retry.
GONE: Final = frozenset({400, 401, 403, 404, 405, 410, 451})
_RANGE: Final = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")

# One for the process: reading the system's certificates takes tens of milliseconds.
_tls = functools.cache(verifying)


class FetchFault(Exception):
    """The file could not be fetched; the message is a short reason."""

    def __init__(
        self, reason: str, *, attempts: int = ATTEMPTS_MAX, after_seconds: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.attempts = attempts  # consecutive ones without progress, after which it is given up
        self.after_seconds = after_seconds  # requested by the upstream


@dataclass(frozen=True, slots=True)
class FileLocation:
    """The address of a file, and the connection settings of its channel.

    `headers` are credentials, for `url`'s own origin; `channel_url` is the channel's base URL.
    `transport` is the channel's: its proxy is used for every address, its CAs and client
    certificate only for the channel's own origin.
    """

    url: str
    channel_url: str
    headers: tuple[tuple[str, str], ...] = ()
    transport: Transport | None = None

    def transport_to(self, origin: object) -> Transport | None:
        """Return how to connect to an origin."""
        transport = self.transport
        if transport is None or origin == _origin(self.channel_url):
            return transport
        return None if transport.proxy is None else Transport(proxy=transport.proxy)


@dataclass(frozen=True, slots=True)
class Opened:
    """A file from byte `start` on; the whole file has `size` bytes, if known."""

    start: int
    size: int | None
    validator: str | None
    content_type: str | None
    response: UpstreamResponse

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield its bytes in pieces. Raises FetchFault."""
        stream = self.response.chunks()
        loop = asyncio.get_running_loop()
        waited_seconds, received_bytes = 0.0, 0
        while True:
            since = loop.time()
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    piece = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise FetchFault("silent") from None
            except errors.UpstreamError as error:
                raise _fault(error) from error
            waited_seconds += loop.time() - since
            received_bytes += len(piece)
            if waited_seconds >= PACE_SECONDS:
                if received_bytes < PACE_BYTES:
                    raise FetchFault("slow")
                waited_seconds, received_bytes = 0.0, 0
            yield piece


@asynccontextmanager
async def opened(
    location: FileLocation, *, start: int = 0, validator: str | None = None
) -> AsyncIterator[Opened]:
    """Open a file; from `start` on if the upstream still has the same file. Raises FetchFault."""
    resumes = start > 0 and validator is not None
    http = HttpClient(
        connect_seconds=CONNECT_SECONDS,
        tls=_tls,
        allows=allowing(await _addresses(location.channel_url)),
    )
    try:
        extra: tuple[tuple[str, str], ...] = ()
        if resumes and validator is not None:
            extra = (("Range", f"bytes={start}-"), ("If-Range", validator))
        response = await _followed(http, location, extra)
        yield _read(response, start if resumes else 0)
    finally:
        await http.close()


async def _followed(
    http: HttpClient, location: FileLocation, extra: tuple[tuple[str, str], ...]
) -> UpstreamResponse:
    """Return the response at the end of all redirects."""
    url, origin = location.url, _origin(location.url)
    for _ in range(REDIRECTS_MAX + 1):
        headers = (*location.headers, *extra) if _origin(url) == origin else extra
        try:
            async with asyncio.timeout(CONNECT_SECONDS + SILENCE_SECONDS):
                transport = location.transport_to(_origin(url))
                response = await http.open(UpstreamRequest("GET", url, headers, b"", transport))
        except TimeoutError:
            raise FetchFault("silent") from None
        except errors.UpstreamError as error:
            raise _fault(error) from error
        target = response.header("location")
        if response.status not in REDIRECTS or target is None:
            return response
        response.close()
        following = urljoin(url, target)
        if urlsplit(url).scheme == "https" and urlsplit(following).scheme != "https":
            raise FetchFault("redirected out of TLS", attempts=1)
        url = following
    raise FetchFault("redirected too often", attempts=1)


def _read(response: UpstreamResponse, start: int) -> Opened:
    """Check the head of the response. Raises FetchFault."""
    status = response.status
    if status == 206 and start:
        match = _RANGE.fullmatch(response.header("content-range") or "")
        if match is None or int(match[1]) != start:
            raise FetchFault("another range than was asked for")
        size: int | None = int(match[3])
    elif status == 200:
        start, length = 0, response.header("content-length") or ""
        size = int(length) if length.isascii() and length.isdigit() and len(length) < 19 else None
    elif status == 416 and start:
        # Shorter than the stored part: another file. A new start will show.
        raise FetchFault("range refused")
    elif status in GONE:
        raise FetchFault(f"status {status}", attempts=GONE_ATTEMPTS)
    else:
        raise FetchFault(f"status {status}", after_seconds=_retry_after(response))
    return Opened(start, size, _validator(response), _stated_content_type(response), response)


def _validator(response: UpstreamResponse) -> str | None:
    """Return the value for `If-Range`: a strong tag, or the time of the last change."""
    tag = response.header("etag") or ""
    if tag.startswith('"') and tag.endswith('"') and len(tag) <= 256 and tag.isprintable():
        return tag
    changed = response.header("last-modified") or ""
    return changed if changed.endswith("GMT") and len(changed) <= 64 else None


def _stated_content_type(response: UpstreamResponse) -> str | None:
    header = response.header("content-type")
    return None if header is None else header.partition(";")[0].strip().lower()


def _retry_after(response: UpstreamResponse) -> float | None:
    header = response.header("retry-after") or ""
    if not (header.isascii() and header.isdigit() and len(header) < 10):
        return None
    return min(RETRY_AFTER_MAX, float(header))


def _fault(error: errors.UpstreamError) -> FetchFault:
    if isinstance(error, AddressRefused):
        return FetchFault("address not public", attempts=1)
    if isinstance(error, errors.UpstreamUnreachable):
        return FetchFault("unreachable")
    if isinstance(error, errors.UpstreamCut):
        return FetchFault("cut")
    assert isinstance(error, errors.UpstreamMalformed), error
    return FetchFault("not HTTP")


def _origin(url: str) -> object:
    try:
        return address_of(url).origin
    except errors.UpstreamUnreachable as error:
        raise FetchFault("no address", attempts=1) from error


async def _addresses(url: str) -> list[str]:
    """Return the channel's own addresses; none if its name cannot be resolved now."""
    try:
        origin = address_of(url).origin
        found = await asyncio.get_running_loop().getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        )
    except (errors.UpstreamUnreachable, OSError, UnicodeError):
        return []
    return [str(one[4][0]) for one in found]
