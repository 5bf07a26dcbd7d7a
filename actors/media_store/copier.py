"""Makes one copy: continues where the last attempt stopped, until its end or a fault."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urljoin, urlsplit

from actors.clock import Clock
from actors.media_store.storage import Busy, CopyStorage, Lost, StorageFault, Writing
from actors.media_store.store import CONTENT_TYPES, Copy, CopyStore, Progress
from channels.errors import UpstreamCut, UpstreamError, UpstreamMalformed, UpstreamUnreachable
from channels.http.client import AddressRefused, HttpClient, address_of
from channels.http.interfaces import UpstreamRequest, UpstreamResponse
from channels.http.transport import Transport, verifying
from channels.links import allowing
from metrics.groups.media import MediaStoreMetrics
from metrics.logs import EventLog

# Reads a result from the upstream's link, from any byte on.
#
# Redirects are followed a few times, each address checked again (`channels/links.py`); credentials
# are sent to the channel's own origin only. Data is yielded in pieces, and reading stops after the
# client has left.

CONNECT_SECONDS: Final = 10.0
SILENCE_SECONDS: Final = 30.0  # before the head and between two pieces
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
        while True:
            try:
                async with asyncio.timeout(SILENCE_SECONDS):
                    piece = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise FetchFault("silent") from None
            except UpstreamError as error:
                raise _fault(error) from error
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
        except UpstreamError as error:
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


def _fault(error: UpstreamError) -> FetchFault:
    if isinstance(error, AddressRefused):
        return FetchFault("address not public", attempts=1)
    if isinstance(error, UpstreamUnreachable):
        return FetchFault("unreachable")
    if isinstance(error, UpstreamCut):
        return FetchFault("cut")
    assert isinstance(error, UpstreamMalformed), error
    return FetchFault("not HTTP")


def _origin(url: str) -> object:
    try:
        return address_of(url).origin
    except UpstreamUnreachable as error:
        raise FetchFault("no address", attempts=1) from error


async def _addresses(url: str) -> list[str]:
    """Return the channel's own addresses; none if its name cannot be resolved now."""
    try:
        origin = address_of(url).origin
        found = await asyncio.get_running_loop().getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        )
    except (UpstreamUnreachable, OSError, UnicodeError):
        return []
    return [str(one[4][0]) for one in found]


# The limit of bytes per second of all copies of a process together.


class Throttle:
    """Limits bytes to a rate; 0 is unlimited. A caller that took too many waits."""

    def __init__(self, bytes_per_second: float, clock: Clock) -> None:
        self._rate = bytes_per_second
        self._clock = clock
        self._free_at = clock.monotonic()

    def __repr__(self) -> str:
        return f"<Throttle {self._rate:g} bytes a second>"

    async def take(self, count: int) -> None:
        """Wait until these bytes are within the rate."""
        if not self._rate:
            return
        now = self._clock.monotonic()
        self._free_at = max(now, self._free_at) + count / self._rate
        # A second's worth may be ahead, so that small pieces do not sleep one by one.
        ahead = self._free_at - now - 1.0
        if ahead > 0:
            await self._clock.sleep(ahead)


BEATS: Final = 4  # per claim: how often it is renewed, and progress stored
FIRST_PAUSE_SECONDS: Final = 2.0
PAUSE_SECONDS_MAX: Final = 900.0
FULL_PAUSE_SECONDS: Final = 5.0  # until the copies to be dropped are
# A copy older than this is given up, whatever delayed it.
AGE_SECONDS_MAX: Final = 3 * 86_400.0
# Room is reserved in steps of this if the upstream does not state the size of a file.
STEP_BYTES: Final = 64 * 1024 * 1024

Outcome = Literal["kept", "retried", "failed", "left"]
# Opens a file from a byte on, as `opened`.
Fetch = Callable[..., AbstractAsyncContextManager[Opened]]
# Returns the present location of a copy's file; None if it is unknown.
Locate = Callable[[Copy], Awaitable[FileLocation | None]]


class ClaimLost(Exception):
    """Another process has claimed the copy."""


class RoomFull(Exception):
    """There is no room for it: not yet, or (`is_final`) never."""

    def __init__(self, *, is_final: bool) -> None:
        super().__init__()
        self.is_final = is_final


class Copier:
    """Makes copies for one process, each in a task of its caller."""

    def __init__(
        self,
        *,
        store: CopyStore,
        storage: CopyStorage,
        locate: Locate,
        bytes_max: int | None,
        file_bytes_max: int,
        throttle: Throttle,
        clock: Clock,
        metrics: MediaStoreMetrics,
        fetch: Fetch = opened,
    ) -> None:
        self._store = store
        self._storage = storage
        self._locate = locate
        self._bytes_max = bytes_max
        self._file_bytes_max = file_bytes_max
        self._throttle = throttle
        self._clock = clock
        self._metrics = metrics
        self._fetch = fetch
        self._log = EventLog("actors.media_store")

    def __repr__(self) -> str:
        return f"<Copier to {self._storage!r}>"

    async def copy(self, copy: Copy) -> Outcome:
        """Make one copy, and store the outcome. Raises StoreError."""
        beat = Beat(copy, self._store, self._clock)
        try:
            async with self._claimed(beat):
                await self._make(copy, beat)
            outcome: Outcome = "kept"
        except asyncio.CancelledError:
            # The process ends: the next one that claims the copy continues at once.
            await self._store.later(copy, pause_seconds=0.0, error=None, counts=False)
            raise
        except ClaimLost:
            outcome = "left"
        except RoomFull as full:
            outcome = await self._full(copy, full)
        except Lost as fault:
            await self._store.hold_on(copy, Progress(0, None))
            outcome = await self._again(copy, beat, str(fault))
        except Busy as fault:
            await self._store.later(
                copy, pause_seconds=self._store.claim_seconds, error=str(fault), counts=False
            )
            outcome = "left"
        except StorageFault as fault:
            outcome = await self._again(copy, beat, str(fault))
        except FetchFault as fault:
            outcome = await self._again(
                copy, beat, fault.reason, attempts=fault.attempts, after=fault.after_seconds
            )
        self._metrics.copied(outcome)
        return outcome

    async def _make(self, copy: Copy, beat: Beat) -> None:
        location = await self._locate(copy)
        if location is None:
            raise FetchFault("the channel is gone")
        writing = await self._storage.open(copy)
        try:
            async with self._fetch(
                location, start=writing.done, validator=copy.validator
            ) as source:
                if source.start != writing.done or (
                    source.start and copy.size is not None and source.size != copy.size
                ):
                    await self._anew(copy, writing)
                    if source.start:
                        raise FetchFault("another file than before")
                beat.follow(writing, source.validator)
                try:
                    await self._pour(copy, source, writing)
                except FetchFault:
                    if not await beat.beat():  # so that received bytes are not fetched again
                        raise ClaimLost from None
                    raise
            content_type = _content_type(source, copy)
            beat.follow(None, None)
            await writing.finish(content_type)
        finally:
            await writing.close()
        if not await self._store.kept(copy, size=writing.done, content_type=content_type):
            raise ClaimLost
        self._log.info(
            "media_copied", task_id=copy.job_id, channel=copy.channel_id, bytes=writing.done
        )

    async def _anew(self, copy: Copy, writing: Writing) -> None:
        """Discard the stored part, which is of another file."""
        await writing.restart()
        if not await self._store.hold_on(copy, Progress(0, None)):
            raise ClaimLost

    async def _pour(self, copy: Copy, source: Opened, writing: Writing) -> None:
        taken = 0 if source.size is None else source.size
        await self._take_room(copy, max(taken, writing.done))
        async for piece in source.pieces():
            if writing.done + len(piece) > taken:
                if source.size is not None:
                    raise FetchFault("more than its length")
                taken += STEP_BYTES
                await self._take_room(copy, taken)
            await writing.write(piece)
            self._metrics.bytes(len(piece))
            await self._throttle.take(len(piece))
        if source.size is not None and writing.done != source.size:
            raise FetchFault("cut")

    async def _take_room(self, copy: Copy, size: int) -> None:
        if size > self._file_bytes_max:
            raise RoomFull(is_final=True)
        bytes_max = self._bytes_max
        if bytes_max is None:
            return
        if size > bytes_max:
            raise RoomFull(is_final=True)
        if not await self._store.room(copy, size, bytes_max=bytes_max):
            raise RoomFull(is_final=False)

    async def _full(self, copy: Copy, full: RoomFull) -> Outcome:
        if full.is_final or copy.age_seconds > AGE_SECONDS_MAX:
            return await self._given_up(copy, "too large" if full.is_final else "no room")
        await self._store.later(
            copy, pause_seconds=FULL_PAUSE_SECONDS, error="no room", counts=False
        )
        return "retried"

    async def _again(
        self,
        copy: Copy,
        beat: Beat,
        reason: str,
        *,
        attempts: int | None = None,
        after: float | None = None,
    ) -> Outcome:
        """Schedule another attempt after a pause that doubles; give up after enough of them."""
        before = 0 if beat.has_progressed else copy.attempts
        if (attempts is not None and before + 1 >= attempts) or copy.age_seconds > AGE_SECONDS_MAX:
            return await self._given_up(copy, reason)
        pause = min(PAUSE_SECONDS_MAX, FIRST_PAUSE_SECONDS * 2 ** min(before, 16))
        await self._store.later(copy, pause_seconds=max(pause, after or 0.0), error=reason)
        return "retried"

    async def _given_up(self, copy: Copy, reason: str) -> Outcome:
        await self._store.given_up(copy, error=reason)
        self._log.warning(
            "media_not_copied", task_id=copy.job_id, channel=copy.channel_id, reason=reason
        )
        return "failed"

    @asynccontextmanager
    async def _claimed(self, beat: Beat) -> AsyncIterator[None]:
        """Keep the claim while the body runs; once it is lost, the body is cancelled."""
        body = asyncio.current_task()
        assert body is not None
        beating = asyncio.create_task(beat.run())

        def ended(task: asyncio.Task[None]) -> None:
            if not task.cancelled():
                body.cancel()

        beating.add_done_callback(ended)
        try:
            yield
        except asyncio.CancelledError:
            if not beating.done():
                raise
            body.uncancel()
            fault = beating.exception()
            raise ClaimLost if fault is None else fault from None
        finally:
            beating.remove_done_callback(ended)
            beating.cancel()
            await asyncio.wait([beating])


class Beat:
    """Renews a claim, and stores the progress of the copy with it."""

    def __init__(self, copy: Copy, store: CopyStore, clock: Clock) -> None:
        self._copy = copy
        self._store = store
        self._clock = clock
        self._writing: Writing | None = None
        self._validator: str | None = None
        self.has_progressed = False

    def follow(self, writing: Writing | None, validator: str | None) -> None:
        """Set what is being written; None: nothing that could be saved."""
        self._writing, self._validator = writing, validator

    async def run(self) -> None:
        """Beat until cancelled, or until the claim is lost."""
        while True:
            await self._clock.sleep(self._store.claim_seconds / BEATS)
            if not await self.beat():
                return

    async def beat(self) -> bool:
        """Beat once; False if the claim is lost."""
        progress = None if self._writing is None else await self._writing.save()
        if progress is not None and self._validator is not None:
            progress = Progress(progress.done, self._validator, progress.upload_id, progress.parts)
            self.has_progressed |= progress.done > self._copy.done
        else:
            progress = None  # without a validator the copy starts again
        return await self._store.hold_on(self._copy, progress)


def _content_type(source: Opened, copy: Copy) -> str:
    """Return the upstream's content type, if it is one of media; else the expected one."""
    declared = source.content_type
    return declared if declared in CONTENT_TYPES else copy.content_type
