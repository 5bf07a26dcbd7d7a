"""What the connections of one listening address share."""

from __future__ import annotations

import asyncio
import re
from asyncio import Future
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from tornado.iostream import StreamClosedError

from channels.resources import OpenFiles
from gw.http.application import HttpApplication
from gw.http.tornado_adapter import RequestHeaders, spelled

# The head of a request, as it comes from the parser: its fields, their bounds, its start line.

# A head longer than this is refused in words.
HEAD_BYTES_MAX = 64 * 1024
# Each line costs a few microseconds before anyone has shown a key. Browsers send some twenty.
HEAD_LINES_MAX = 256
# Clients send the same few names again and again. Others are spelled anew each time.
_NAMES_KEPT = 512

_METHOD, _TARGET = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)", rb"[!-~]+"
_START_LINE = re.compile(_METHOD + rb" " + _TARGET + rb" HTTP/1\.[01]\r\n")
_PART_OF_LINE = re.compile(_METHOD + rb"( (" + _TARGET + rb"( ([!-~]*\r?))?)?)?")
_VERSIONS = (b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")


class HeadFault(Exception):
    """A head is refused; the text says why."""


def headers_of(lines: Sequence[tuple[bytes, bytes]], names: FieldNames) -> RequestHeaders:
    """The fields, name and value, as they came."""
    fields: dict[str, list[str]] = {}
    known = names.known
    for name, value in lines:
        field = known.get(name) or names.spelled(name)
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)


class FieldNames:
    """Header names as Tornado spells them, remembered. One per listener."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}

    def spelled(self, name: bytes) -> str:
        """`content-TYPE` as `Content-Type`, which is known from then on."""
        field = self.known.get(name)
        if field is None:
            field = spelled(name.decode("latin-1"))
            if len(self.known) < _NAMES_KEPT:
                self.known[name] = field
        return field


def method_of(data: bytes) -> str | None:
    """The method of the request that begins here; None where no start line of HTTP/1 does."""
    found = _START_LINE.match(data)
    return found[1].decode("latin-1") if found is not None else None


def may_begin(data: bytes) -> bool:
    """Whether this is the beginning of a start line of HTTP/1, which more may complete."""
    found = _PART_OF_LINE.fullmatch(data)
    return found is not None and any(end.startswith(found[5] or b"") for end in _VERSIONS)


TOO_LARGE = f"its header is larger than {HEAD_BYTES_MAX // 1024} KB"
TOO_MANY = f"it has more than {HEAD_LINES_MAX} header lines"


# A connection's pace: who waits for whom, and for how long.
#
# Writing waits for a client that reads slowly, and then nothing more is read from it; reading waits
# for a request that is not wanted yet. One deadline bounds whatever the connection waits for at the
# moment, another the timeout of a client that takes nothing of what it was sent. What is read and
# written is `connection.py`.
#
# The timer is the connection's own and not one of `channels/resources.py`: its deadline changes in
# kind and length several times a request, and moving it is two assignments here.

# How long a client that was refused, or told to go, may take to read what it was told, and how
# much of what it still sends meanwhile is read and dropped.
LINGER_SECONDS = 5.0
LINGER_BYTES_MAX = 1024 * 1024
# A client that takes nothing of what waits for it for so long is cut.
UNREAD_SECONDS = 60.0
FOREVER = float("inf")


class FlowControl(asyncio.BufferedProtocol):
    """The transport of one connection and its deadlines."""

    __slots__ = (
        "_deadline",
        "_drained",
        "_dropped_bytes",
        "_is_ending",
        "_is_held",
        "_is_paused",
        "_reader_deadline",
        "_ready",
        "_timer",
        "_transport",
        "_unsent_bytes",
        "is_closed",
        "loop",
        "remote_ip",
    )

    _transport: asyncio.Transport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, ready: Future[None], seconds: float
    ) -> None:
        """`ready` is a done future, for callers that need not wait. `seconds` is the first
        deadline.
        """
        self.is_closed = False
        self.remote_ip = ""
        self.loop = loop
        self._is_ending = False  # nothing more is read
        self._is_held = False  # reading is paused
        self._is_paused = False  # the transport wants no more for now
        self._ready = ready
        self._drained: Future[None] | None = None
        self._deadline = loop.time() + seconds
        self._reader_deadline = FOREVER  # until then the client takes something
        self._unsent_bytes = 0  # of what was written, when that was looked at last
        self._dropped_bytes = 0  # read since nothing more is parsed
        self._timer: asyncio.TimerHandle | None = None

    def is_responding(self) -> bool:
        """Whether a client waits for a response, or its end."""
        raise NotImplementedError

    @property
    def owes_nothing(self) -> bool:
        """Whether all that was written for its client is out."""
        return not self._transport.get_write_buffer_size()

    @property
    def is_silent(self) -> bool:
        """Whether it owes nothing and nothing of a request has come."""
        raise NotImplementedError

    @property
    def farewell_seconds(self) -> float:
        """How long a client that said nothing may take to leave, once nothing more is heard."""
        raise NotImplementedError

    # --- For its request ---

    @property
    def has_unread(self) -> bool:
        """Whether something was read that is not parsed yet."""
        raise NotImplementedError

    def read_on(self) -> None:
        """Parse what waits, as far as it is its turn."""
        raise NotImplementedError

    def drain(self) -> None:
        """Keep it for a moment only where no client waits for a response: the process ends."""
        raise NotImplementedError

    def response_sent(self, request: Any, last: bytes) -> None:
        """Go on to the next request: the response is complete but for its last bytes."""
        raise NotImplementedError

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.arm(self._deadline)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_exception(StreamClosedError(exc))
            drained.exception()  # a waiting writer has it; none need wait

    def pause_writing(self) -> None:
        self._is_paused = True
        self.hold()
        self._look_at_reader()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._reader_deadline = FOREVER
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # --- Writing ---

    def send(self, data: bytes) -> None:
        """Write, unless the client has left."""
        if not self.is_closed:
            self._transport.write(data)

    def write(self, data: bytes) -> Future[None]:
        """Write; the future is done when the client keeps up, or fails when it has left."""
        if self.is_closed:
            failed: Future[None] = self.loop.create_future()
            failed.set_exception(StreamClosedError())
            failed.exception()  # raised where it is awaited, which is optional
            return failed
        if data:
            self._transport.write(data)
        if not self._is_paused:
            return self._ready
        # Waited for by one task at a time; one that was cancelled has cancelled its future too.
        if self._drained is None or self._drained.done():
            self._drained = self.loop.create_future()
        return self._drained

    # --- Reading ---

    def hold(self) -> None:
        """Read no more for now."""
        if not self._is_held and not self._transport.is_closing():
            self._is_held = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on, unless what was written waits for its reader."""
        if self._is_held and not self._is_paused and not self._transport.is_closing():
            self._is_held = False
            self._transport.resume_reading()

    def drop(self, data_bytes: int) -> None:
        """Count what is read and no longer wanted; there is an end to that, too."""
        self._dropped_bytes += data_bytes
        if self._dropped_bytes > LINGER_BYTES_MAX:
            self.abort()

    # --- Ending ---

    def stop(self) -> None:
        """End once what is written is out."""
        self._is_ending = True
        self.arm(self.loop.time() + LINGER_SECONDS)
        self._transport.close()

    def abort(self) -> None:
        """End now."""
        self._is_ending = True
        self._transport.abort()

    def linger(self, seconds: float = LINGER_SECONDS) -> None:
        """Say that nothing more comes, and let the client read what it was told.

        Closed with unread bytes in its buffer, a socket takes back what it has sent.
        """
        self._is_ending = True
        self.arm(self.loop.time() + seconds)
        if self._transport.can_write_eof():
            self.resume()
            self._transport.write_eof()
        else:
            self._transport.close()

    # --- The deadlines ---

    def arm(self, deadline: float) -> None:
        """Move the deadline; the timer is only made anew when it would come too late."""
        self._deadline = deadline
        self._wake_at(deadline)

    def disarm(self) -> None:
        """Wait for as long as it takes."""
        self._deadline = FOREVER

    def _look_at_reader(self) -> None:
        """Give the client time to take something of what waits for it."""
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self._reader_deadline = self.loop.time() + UNREAD_SECONDS
        self._wake_at(self._reader_deadline)

    def _wake_at(self, deadline: float) -> None:
        timer = self._timer
        if timer is None or timer.when() > deadline:
            if timer is not None:
                timer.cancel()
            self._timer = self.loop.call_at(deadline, self._expired)

    def _expired(self) -> None:
        self._timer = None
        if self.is_closed:
            return
        now = self.loop.time()
        unsent_bytes = self._transport.get_write_buffer_size()
        if self._reader_deadline <= now:
            if unsent_bytes >= self._unsent_bytes > 0:
                self.abort()
                return
            if unsent_bytes:
                self._look_at_reader()
            else:
                self._reader_deadline = FOREVER
        if self._deadline <= now and not self._is_over(now, unsent_bytes):
            return
        deadline = min(self._deadline, self._reader_deadline)
        if deadline != FOREVER:
            self._wake_at(deadline)

    def _is_over(self, now: float, unsent_bytes: int) -> bool:
        """The deadline has come; False when that ends the connection."""
        if self.is_responding():
            self.abort()
        elif unsent_bytes:  # for its reader as long as that takes any of it
            self._deadline = now + UNREAD_SECONDS
            if self._reader_deadline == FOREVER:
                self._look_at_reader()
            return True
        elif self._transport.is_closing():
            self.abort()
        elif self._is_ending:
            self.stop()
        else:
            # What it sends at this very moment must not be answered by a reset.
            self.linger(self.farewell_seconds)
        return False


# A kept connection that stays silent for so long is closed. Longer than common load balancers
# keep theirs, so that they close first.
IDLE_SECONDS = 75.0
# A client may send its next request while it has not been told yet that the process is about to
# end: until so long after its last response, or after the drain's beginning.
LAST_CALL_SECONDS = 1.0
# Beside those that are served, for each so many of them, one client may be leaving: it has its
# response, or its refusal, and time to read it. The one that has had the longest is cut for more.
SERVED_PER_LEAVING = 8
# Of connections without a request, so many are looked at for one that waits and owes nothing.
LOOKS_MAX = 16
# So much is read at a time. What it costs to parse is how long everybody else waits.
READ_BYTES_MAX = 64 * 1024


class ServerState:
    """The application, the connections and what they need not have each of their own."""

    __slots__ = (
        "_connections_max",
        "_emptied",
        "_files",
        "application",
        "buffer",
        "connections",
        "idle",
        "is_draining",
        "leaving",
        "loop",
        "names",
        "ready",
    )

    def __init__(
        self, application: HttpApplication, connections_max: int | None, files: OpenFiles
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.application = application
        self.names = FieldNames()
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))  # what every connection reads into
        self.ready: Future[None] = self.loop.create_future()  # done: for callers that need not wait
        self.ready.set_result(None)
        self.is_draining = False  # who is silent is kept for a moment only
        self.connections: set[FlowControl] = set()
        self.idle: dict[FlowControl, None] = {}  # those without a request, the longest first
        self.leaving: dict[FlowControl, None] = {}  # those that only read on, likewise
        self._connections_max = connections_max
        self._files = files
        files.add(
            "clients",
            self.connections.__len__,
            self._give_way,
            idle=lambda: len(self.idle) + len(self.leaving),
        )
        self._emptied: Future[None] | None = None

    @property
    def idle_seconds(self) -> float:
        """How long a connection is kept on which nothing comes."""
        return LAST_CALL_SECONDS if self.is_draining else IDLE_SECONDS

    @property
    def farewell_seconds(self) -> float:
        """How long a client that said nothing may take to leave."""
        return LAST_CALL_SECONDS if self.is_draining else LINGER_SECONDS

    @property
    def connections_max(self) -> int:
        """How many clients are served at the same time."""
        return self._connections_max or self._files.clients_max

    @property
    def is_full(self) -> bool:
        """Whether a client that comes now would be refused."""
        served = len(self.connections) - len(self.leaving)
        return served >= self.connections_max and not self.idle

    def counts(self) -> Mapping[str, int]:
        """The connections by state, with their bound."""
        idle, leaving = len(self.idle), len(self.leaving)
        return {
            "in_use": max(0, len(self.connections) - idle - leaving),
            "idle": idle,
            "leaving": leaving,
            "limit": self.connections_max,
        }

    def admits(self, connection: FlowControl) -> bool:
        """Note that a connection was made; False when it is one too many.

        It is not while another one waits for a request: that one is closed for it.
        """
        self.connections.add(connection)
        if len(self.connections) - len(self.leaving) > self.connections_max:
            waiting = self._idlest()
            if waiting is None:
                self._files.metrics.refused("connections")
                return False
            self._files.metrics.freed("clients")
            waiting.linger()
        self.idle[connection] = None
        return True

    def has_file(self, number: int) -> bool:
        """Whether a client's file of this number may stay (`OpenFiles.has_room`)."""
        if self._files.has_room(number):
            return True
        self._files.metrics.refused("files")
        return False

    def leaves(self, connection: FlowControl) -> None:
        """Note that nothing more is heard of a connection's client, which may read on a little."""
        self.idle.pop(connection, None)
        self.leaving[connection] = None
        if len(self.leaving) > max(LOOKS_MAX, self.connections_max // SERVED_PER_LEAVING):
            self._cut_leaving()

    def left(self, connection: FlowControl) -> None:
        """Note that a connection is gone."""
        self.connections.discard(connection)
        self.idle.pop(connection, None)
        self.leaving.pop(connection, None)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    async def none_left(self, seconds: float) -> None:
        """Wait until no client is connected, at most so long."""
        if self.connections:
            self._emptied = self.loop.create_future()
            await asyncio.wait((self._emptied,), timeout=seconds)
            self._emptied = None

    # --- Who goes for another one ---

    def _give_way(self) -> bool:
        """Free a client's file at once; False when every client is being served."""
        if self.leaving:
            self._cut_leaving()
            return True
        waiting = self._idlest()
        if waiting is None:
            return False
        waiting.abort()
        return True

    def _cut_leaving(self) -> None:
        connection = next(iter(self.leaving))
        del self.leaving[connection]
        connection.abort()

    def _idlest(self) -> FlowControl | None:
        """Take out the connection that has waited longest for a request.

        One that has begun to send it goes when all others that are looked at have, too; one whose
        last response is not all sent stays. Those that are passed over are looked at last.
        """
        beginning: FlowControl | None = None
        for connection in list(islice(self.idle, LOOKS_MAX)):
            del self.idle[connection]
            if connection.is_silent:
                return connection
            self.idle[connection] = None
            if beginning is None and connection.owes_nothing:
                beginning = connection
        if beginning is not None:
            del self.idle[beginning]
        return beginning
