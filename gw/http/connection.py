"""One client connection: requests are served one after another, each answered before the next.

`TRANSITIONS` lists the `Event`s that end each `State`. Pipelined bytes stay unparsed until the
response before them is sent; a body stays unparsed until its handler accepts it.

A connection has one deadline for the next thing it expects, and a second one while it has unsent
response bytes (`ConnectionDeadlines`):

    expected                    until                         then
    a request                   IDLE_SECONDS                  closed
      while the process drains  DRAIN_GRACE_SECONDS           closed
    the rest of a head          HEAD_SECONDS                  closed
      while the process drains  DRAIN_GRACE_SECONDS a piece   closed
    the rest of a body          BODY_SECONDS                  aborted
    a response                  the call's own timeout        –
    the client reads a part,    UNREAD_SECONDS                aborted
    UNREAD_BYTES_MIN or all
    the client reads the end    LINGER_SECONDS                closed, or as above

The memory of a connection whose client has shown no key is at most CONNECTION_BYTES_MAX:

    unread bytes                READ_AHEAD_BYTES_MAX, and one read of READ_BYTES_MAX
    a head                      HEAD_BYTES_MAX in HEAD_LINES_MAX lines, each line four objects
    the head before it          REMEMBERED_BYTES_MAX, and what was found in it
    unsent bytes                the transport's high-water mark (64 KB), and one response

Only handlers keep bodies (`body.py`), and no handler accepts one before it knows the key.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Mapping
from enum import IntEnum, auto
from itertools import islice
from typing import cast

from channels.open_files import OpenFiles
from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.application import HttpApplication
from gw.http.body import BODY_SECONDS
from gw.http.deadlines import FOREVER, UNREAD_BYTES_MIN, UNREAD_SECONDS, ConnectionDeadlines
from gw.http.faults import RequestFault
from gw.http.flow_control import Outbound
from gw.http.head import Head
from gw.http.parser import START, TURN_LINES, RequestParser
from gw.http.request import Request
from gw.http.tornado.headers import RequestHeaders

HEAD_SECONDS = 30.0
# An idle connection is closed after this time. Longer than the keep-alive of common load balancers,
# so that they close first.
IDLE_SECONDS = 75.0
# A client that does not know of the drain yet may still send its next request: for this long after
# its last response, or after the drain began.
DRAIN_GRACE_SECONDS = 1.0
# How long a refused client, or one whose connection ends, may take to read its response, and how
# many of the bytes that it still sends are read and dropped.
LINGER_SECONDS = 5.0
LINGER_BYTES_MAX = 1024 * 1024
# Size of one read: all other connections wait while it is parsed.
READ_BYTES_MAX = 64 * 1024
# Reading pauses above this number of unparsed bytes, not earlier: only reads detect a disconnect.
READ_AHEAD_BYTES_MAX = 16 * 1024
# Memory of one connection whose client has shown no key.
CONNECTION_BYTES_MAX = 256 * 1024
# One lingering connection is allowed for this many served ones: its client has its response, or its
# refusal, and time to read it. Above that the oldest lingering connection is aborted.
SERVED_PER_LEAVING = 8
# Idle connections examined in search of one that can be closed.
LOOKS_MAX = 16

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FULL = "The gateway has as many connections as it can take. Try again shortly."


class State(IntEnum):
    """The state of a connection."""

    IDLE = auto()  # no byte of a request was received
    HEAD = auto()  # a part of a head was received
    CHECKING = auto()  # the handler checks the head; the body stays unparsed
    BODY = auto()  # a body is received; a response may already be sent
    HANDLING = auto()  # the request is complete, the response is not
    ENDING = auto()  # nothing more is parsed; the last response may be incomplete or unread
    CLOSED = auto()


class Event(IntEnum):
    """An event of a connection."""

    BEGUN = auto()  # the first bytes of a head were received, and not the last
    HEAD_READ = auto()
    CHECKED = auto()  # the handler accepts the body, or has refused the request: the rest may come
    WHOLE = auto()  # the request is complete
    RESPONDED = auto()  # the response is written completely
    END = auto()  # a fault, a timeout, or the end of the process
    LOST = auto()


IDLE, HEAD, CHECKING, BODY, HANDLING, ENDING, CLOSED = State
BEGUN, HEAD_READ, CHECKED, WHOLE, RESPONDED, END, LOST = Event
_ENDS = {END: ENDING, LOST: CLOSED}
TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    IDLE: {**_ENDS, BEGUN: HEAD, HEAD_READ: CHECKING},
    HEAD: {**_ENDS, HEAD_READ: CHECKING},
    CHECKING: {**_ENDS, CHECKED: BODY, WHOLE: HANDLING},
    # A response that ends before its request: the rest of the body is not worth a connection.
    BODY: {**_ENDS, WHOLE: HANDLING, RESPONDED: ENDING},
    HANDLING: {**_ENDS, RESPONDED: IDLE},
    ENDING: {**_ENDS, RESPONDED: ENDING},
    CLOSED: {},
}
_PARSES = frozenset({IDLE, HEAD, BODY})  # states in which received bytes are parsed
_WAITS = frozenset({HEAD, CHECKING, BODY})  # those in which a request is incomplete or unchecked


class Connection(asyncio.BufferedProtocol):
    """A client's connection."""

    __slots__ = (
        "_deadlines",
        "_dropped_bytes",
        "_is_paused",
        "_is_turn_over",
        "_parser",
        "_request",
        "_server",
        "_state",
        "out",
        "remote_ip",
    )

    def __init__(self, server: ServerState) -> None:
        self.out = Outbound(server.loop, server.ready)
        self.remote_ip = ""
        self._server = server
        self._state = IDLE
        self._parser = RequestParser()
        self._deadlines = ConnectionDeadlines(server.loop, server.idle_seconds, self._expired)
        self._request: Request | None = None  # from the end of its head to the end of its response
        self._is_paused = False  # reading is paused
        self._is_turn_over = False  # parsing continues in the loop's next iteration
        self._dropped_bytes = 0  # received while ENDING

    @property
    def has_unread(self) -> bool:
        """Whether received bytes are not parsed yet."""
        return self._parser.buffer.left_bytes > 0

    @property
    def owes_nothing(self) -> bool:
        """Whether the write buffer is empty."""
        return not self.out.unsent_bytes

    @property
    def is_silent(self) -> bool:
        """Whether the write buffer is empty and no byte of a request was received."""
        return self._state is not HEAD and not self.has_unread and self.owes_nothing

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.out.transport = cast(asyncio.Transport, transport)
        self._deadlines.arm(self._deadlines.until, IDLE)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.remote_ip = peer[0]
        # With TLS the descriptor was checked before the handshake.
        has_tls = transport.get_extra_info("sslcontext") is not None
        sock = None if has_tls else transport.get_extra_info("socket")
        if not self._server.has_file(0 if sock is None else sock.fileno()):
            self._server.connections.add(self)
            self._refuse(GatewayError(NO_CHANNEL_AVAILABLE, _FULL), "")
            # It may not keep its descriptor while the client reads.
            self._server.leaving.pop(self, None)
            self.stop()
        elif not self._server.admits(self):
            self._refuse(GatewayError(NO_CHANNEL_AVAILABLE, _FULL), "")

    def connection_lost(self, exc: Exception | None) -> None:
        self._state = TRANSITIONS[self._state][LOST]
        self.out.close(exc)
        self._deadlines.cancel()
        self._server.left(self)
        self._parser.close()
        request, self._request = self._request, None
        if request is not None:
            request.lost()

    def pause_writing(self) -> None:
        self.out.is_paused = True
        self._hold()
        self._deadlines.watch_reader(self.out.unsent_bytes)

    def resume_writing(self) -> None:
        self._deadlines.reader_until = FOREVER
        self.out.resume()
        self.read_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer of the next read, which all connections share."""
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._server.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Buffer received bytes and parse as many as the state allows."""
        if self._request is not None and self._request.is_finished:
            self._responded()  # a fast client's next request, in the iteration of the response
        if self._state is ENDING:
            self._dropped_bytes += len(data)
            if self._dropped_bytes > LINGER_BYTES_MAX:
                self.abort()
            return
        self._parser.buffer.add(data)
        self.read_on()

    # --- Receiving a request ---

    def read_on(self) -> None:
        """Parse buffered bytes for one turn; pause or resume reading by what is left."""
        parser = self._parser
        buffer = parser.buffer
        parser.turn_lines = 0
        while buffer.left_bytes and self._state in _PARSES and not self._is_turn_over:
            if self._state is IDLE and self.out.is_paused:
                break
            for event in parser.advance():
                if type(event) is Head:
                    self._begin(event)
                elif type(event) is bytes:
                    request = cast(Request, self._request)
                    request.take(event)
                    if request.is_finished:
                        self._responded()
                elif self._state is not ENDING:
                    self._fail(cast(RequestFault, event))
            if self._state is IDLE and parser.stage is not START:
                self._state = TRANSITIONS[IDLE][BEGUN]
            elif self._state is BODY and parser.stage is START:
                self._received(cast(Request, self._request), b"")
            if parser.turn_lines >= TURN_LINES:
                self._end_turn()
        if self._state is ENDING:
            buffer.clear()
        elif self._state in _WAITS:
            self._wait_for_rest(parser)
        if self._is_turn_over or len(buffer.data) > READ_AHEAD_BYTES_MAX:
            self._hold()
        elif self._is_paused:
            self._resume()

    def _begin(self, head: Head) -> None:
        """Create the request of a head and let its handler check it."""
        self._server.idle.pop(self, None)
        self._state = TRANSITIONS[self._state][HEAD_READ]
        request = self._request = Request(
            self.out, self._server.application, head, self.remote_ip, self._responded
        )
        check = request.begin()
        if check is None:
            self._checked(request)
        else:
            check.add_done_callback(self._check_done)

    def _check_done(self, _: object) -> None:
        if self._state is CHECKING:
            self._checked(cast(Request, self._request))
            self.read_on()

    def _checked(self, request: Request) -> None:
        """Continue with the body: the handler accepts it, or has refused the request."""
        whole = self._parser.take_body()
        if whole is not None:
            self._received(request, whole)
            return
        self._state = TRANSITIONS[self._state][CHECKED]
        if request.expects_continue and not self.has_unread:
            self.out.send(_CONTINUE)
        if request.is_finished:
            self._responded()

    def _received(self, request: Request, whole: bytes) -> None:
        """Let the request be answered; `whole` is its body, unless that came in pieces."""
        self._state = TRANSITIONS[self._state][WHOLE]
        self._deadlines.disarm(HANDLING)
        request.received(whole)
        if request.is_finished:
            self._responded()

    def _wait_for_rest(self, parser: RequestParser) -> None:
        """Set the deadline of an incomplete or unchecked request."""
        deadlines, now = self._deadlines, self._server.loop.time()
        if self._state is HEAD:
            until = now + HEAD_SECONDS
            if self._server.is_draining:  # each piece moves the deadline
                # In a drain a connection has one head at most: its response closes it.
                deadlines.head_until = min(deadlines.head_until, until)
                until = min(deadlines.head_until, now + DRAIN_GRACE_SECONDS)
            elif deadlines.waits_in is HEAD:
                return
            deadlines.arm(until, HEAD)
        elif parser.stage is START:
            deadlines.disarm(HANDLING)
        elif deadlines.waits_in is not BODY:
            deadlines.arm(now + BODY_SECONDS, BODY)

    def _end_turn(self) -> None:
        """Yield to other connections until the loop's next iteration."""
        if not self._is_turn_over:
            self._is_turn_over = True
            self._server.loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_turn_over = False
        if self._state is not CLOSED:
            self.read_on()

    def _hold(self) -> None:
        """Pause reading."""
        if not self._is_paused and not self.out.transport.is_closing():
            self._is_paused = True
            self.out.transport.pause_reading()

    def _resume(self) -> None:
        """Resume reading, unless the client is slow to read."""
        if self._is_paused and not self.out.is_paused and not self.out.transport.is_closing():
            self._is_paused = False
            self.out.transport.resume_reading()

    def _fail(self, fault: RequestFault) -> None:
        """Refuse bytes that are not HTTP; the bytes after them are not parsed."""
        request = self._request
        if request is None:
            message = f"The request is malformed: {fault.message[:200]}."
            self._refuse(GatewayError(INVALID_REQUEST, message), fault.target)
        else:  # inside a body
            self._state = TRANSITIONS[self._state][END]
            request.body_fault(fault.message)
            self._responded()

    def _refuse(self, error: GatewayError, target: str) -> None:
        """Respond with an error to a request that has no handler."""
        self._state = TRANSITIONS[self._state][END]
        head = Head("GET", target, "HTTP/1.1", RequestHeaders({}), keeps_alive=False)
        request = self._request = Request(
            self.out, self._server.application, head, self.remote_ip, self._responded
        )
        request.refuse(error)
        self._responded()

    # --- The end of a response, and of the connection ---

    def _responded(self) -> None:
        """Continue with the next request if this one is checked and its response complete."""
        request = self._request
        if request is None or not request.is_finished or self._state is CHECKING:
            return
        self._request = None
        self._state = TRANSITIONS[self._state][RESPONDED]
        if self._state is ENDING:
            self.linger()
        elif not request.keeps_alive:
            self.stop()
        else:
            self._server.idle[self] = None
            self._deadlines.arm(self._server.loop.time() + self._server.idle_seconds, IDLE)
            if self._parser.buffer.left_bytes:
                self._end_turn()

    def drain(self) -> None:
        """Shorten the deadline of an idle connection, because the process is about to end."""
        deadlines = self._deadlines
        if self._state is HEAD:
            deadlines.head_until = deadlines.until
        if self._state in (IDLE, HEAD):
            grace_until = self._server.loop.time() + DRAIN_GRACE_SECONDS
            deadlines.arm(min(deadlines.until, grace_until), self._state)

    def stop(self) -> None:
        """Close once the write buffer is sent."""
        self._state = TRANSITIONS[self._state][END]
        self._deadlines.arm(self._server.loop.time() + LINGER_SECONDS, ENDING)
        self.out.transport.close()

    def abort(self) -> None:
        """Abort the connection."""
        self._state = TRANSITIONS[self._state][END]
        self.out.transport.abort()

    def linger(self, seconds: float = LINGER_SECONDS) -> None:
        """Half-close, and let the client read the bytes sent before.

        A socket that is closed with unread bytes in its receive buffer sends a reset, which
        discards bytes that its client has not read.
        """
        self._server.leaves(self)
        self._state = TRANSITIONS[self._state][END]
        self._deadlines.arm(self._server.loop.time() + seconds, ENDING)
        transport = self.out.transport
        if transport.is_closing():
            return
        if transport.can_write_eof():
            self._resume()
            transport.write_eof()
        else:
            transport.close()

    def _expired(self) -> None:
        deadlines, now = self._deadlines, self._server.loop.time()
        unsent_bytes = self.out.unsent_bytes
        if deadlines.reader_until <= now:
            before = deadlines.unsent_bytes
            if before and unsent_bytes > max(0, before - UNREAD_BYTES_MIN):
                self.abort()
                return
            if unsent_bytes:
                deadlines.watch_reader(unsent_bytes)
            else:
                deadlines.reader_until = FOREVER
        if deadlines.until <= now and self._has_ended(now, unsent_bytes):
            return
        until = min(deadlines.until, deadlines.reader_until)
        if until != FOREVER:
            deadlines.wake_at(until)

    def _has_ended(self, now: float, unsent_bytes: int) -> bool:
        """End the connection at its deadline; False while the client still reads."""
        deadlines = self._deadlines
        if self._request is not None or (self.out.transport.is_closing() and not unsent_bytes):
            self.abort()
        elif unsent_bytes:  # kept as long as the client reads some of it
            deadlines.until = now + UNREAD_SECONDS
            if deadlines.reader_until == FOREVER:
                deadlines.watch_reader(unsent_bytes)
            return False
        elif self._state is ENDING:
            self.stop()
        else:
            # Bytes that the client sends at this moment must not cause a reset.
            self.linger(self._server.grace_seconds)
        return True


class ServerState:
    """The application, the connections, and the state that they share."""

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
        "ready",
    )

    def __init__(
        self, application: HttpApplication, connections_max: int | None, files: OpenFiles
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.application = application
        self.buffer = memoryview(bytearray(READ_BYTES_MAX))  # every connection reads into it
        self.ready: Future[None] = self.loop.create_future()  # done: for writes that need not wait
        self.ready.set_result(None)
        self.is_draining = False  # idle connections are closed soon
        self.connections: set[Connection] = set()
        self.idle: dict[Connection, None] = {}  # those without a request, oldest first
        self.leaving: dict[Connection, None] = {}  # lingering ones, oldest first
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
        """How long an idle connection is kept."""
        return DRAIN_GRACE_SECONDS if self.is_draining else IDLE_SECONDS

    @property
    def grace_seconds(self) -> float:
        """How long the client of an idle connection that is ended may take to close it."""
        return DRAIN_GRACE_SECONDS if self.is_draining else LINGER_SECONDS

    @property
    def connections_max(self) -> int:
        """How many connections are served at the same time."""
        return self._connections_max or self._files.clients_max

    @property
    def is_full(self) -> bool:
        """Whether a new connection would be refused."""
        served = len(self.connections) - len(self.leaving)
        return served >= self.connections_max and not self.idle

    def counts(self) -> Mapping[str, int]:
        """Return the number of connections by state, and their bound."""
        idle, leaving = len(self.idle), len(self.leaving)
        return {
            "in_use": max(0, len(self.connections) - idle - leaving),
            "idle": idle,
            "leaving": leaving,
            "limit": self.connections_max,
        }

    def admits(self, connection: Connection) -> bool:
        """Add a new connection; False when there are too many.

        Above the bound an idle connection is closed to make room.
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
        """Whether a client's descriptor of this number may stay (`OpenFiles.has_room`)."""
        if self._files.has_room(number):
            return True
        self._files.metrics.refused("files")
        return False

    def leaves(self, connection: Connection) -> None:
        """Mark a connection as lingering: its client may only read."""
        self.idle.pop(connection, None)
        self.leaving[connection] = None
        if len(self.leaving) > max(LOOKS_MAX, self.connections_max // SERVED_PER_LEAVING):
            self._cut_leaving()

    def left(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self.connections.discard(connection)
        self.idle.pop(connection, None)
        self.leaving.pop(connection, None)
        if self._emptied is not None and not self.connections and not self._emptied.done():
            self._emptied.set_result(None)

    async def none_left(self, seconds: float) -> None:
        """Wait until no client is connected, at most `seconds`."""
        if self.connections:
            self._emptied = self.loop.create_future()
            await asyncio.wait((self._emptied,), timeout=seconds)
            self._emptied = None

    # --- Making room ---

    def _give_way(self) -> bool:
        """Free a client's descriptor at once; False when every client is being served."""
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

    def _idlest(self) -> Connection | None:
        """Remove and return the connection that has been idle longest, among LOOKS_MAX.

        A connection with a partial head is taken only when no silent one is found; one with unsent
        response bytes is never taken. Those that are passed over move to the end.
        """
        beginning: Connection | None = None
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
