"""One client connection on httptools: one request after another, each answered before the next.

Strict where lenience would let this server and one before it disagree on where a request ends
(request smuggling): the parser runs without any of its leniencies, and `request.py` stands behind
it for what it lets through. What comes behind a request waits unparsed until that one
is answered and its response is on its way; a body waits so until its handler takes it.

A connection has one deadline, moved by what it waits for, and while it has unsent bytes of
responses another one (`state.py`):

    what it waits for           until                       then
    a request                   IDLE_SECONDS                closed
      while the process drains  LAST_CALL_SECONDS           closed
    the rest of a head          HEAD_SECONDS                closed
      while the process drains  LAST_CALL_SECONDS a piece   closed
    the rest of a body          BODY_SECONDS                cut
    a response                   the call's own time-out     –
    the client to take a part   UNREAD_SECONDS              cut
    the client to read its end  LINGER_SECONDS              closed, or as above

What it holds, whatever a client without a key does, is at most CONNECTION_BYTES_MAX:

    unread bytes                READ_AHEAD_BYTES_MAX, and one read of READ_BYTES_MAX
    a head                      HEAD_BYTES_MAX in HEAD_LINES_MAX lines, each line four objects
    unsent bytes                the transport's high-water mark (64 KB), and one response

A body is held by its handler only (`body.py`), and no handler takes one before it knows the key.
"""

from __future__ import annotations

import asyncio

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
)

from gw.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.body import ReadBuffer
from gw.http.request import Request, head_of_body
from gw.http.state import (
    FOREVER,
    HEAD_BYTES_MAX,
    HEAD_LINES_MAX,
    LAST_CALL_SECONDS,
    LINGER_SECONDS,
    READ_BYTES_MAX,
    TOO_LARGE,
    TOO_MANY,
    FlowControl,
    HeadFault,
    ServerState,
    headers_of,
    may_begin,
    method_of,
)
from gw.http.tornado_adapter import METHODS, RequestHeaders

# What the parser has against a request, in the words that the gateway uses.

REQUEST_LINE = "its request line is none of HTTP/1.1"
_LENGTH = "Content-Length must be one whole number"
_CODING = "only the transfer encoding `chunked` is supported"
_BOTH = "Content-Length and Transfer-Encoding exclude each other"
_LINE_END = "a line of its header ends without CR"
_NAME = "a header name has a character that none may have"
_VALUE = "a header value has a character that none may have"

_WORDS = {
    "Expected HTTP/, RTSP/ or ICE/": REQUEST_LINE,
    "Expected space after method": REQUEST_LINE,
    "Expected HTTP/2 Connection Preface": "its version of HTTP is not supported",
    "Pause on PRI/Upgrade": "its version of HTTP is not supported",
    "Invalid HTTP version": "its request line has no version of HTTP that is supported",
    "Expected CRLF after version": "its request line has no end, or a line ends without CR",
    "Missing expected CR after header value": f"{_VALUE}, or {_LINE_END}",
    "Missing expected LF after header value": _VALUE,
    "Expected LF after CR": _VALUE,
    "Invalid header value char": _VALUE,
    "Invalid header field char": _NAME,
    "Invalid header token": _NAME,
    "Unexpected whitespace after header value": "folding of header lines is not supported",
    "Unexpected space after start line": _NAME,
    "Content-Length can't be present with Transfer-Encoding": _BOTH,
    "Transfer-Encoding can't be present with Content-Length": _BOTH,
    "Invalid character in Content-Length": _LENGTH,
    "Duplicate Content-Length": _LENGTH,
    "Content-Length overflow": _LENGTH,
    "Empty Content-Length": _LENGTH,
    "Empty Transfer-Encoding": _CODING,
    "Invalid `Transfer-Encoding` header value": _CODING,
    "Request has invalid `Transfer-Encoding`": _CODING,
}


def in_words(error: HttpParserError) -> str:
    """Say what is wrong."""
    if isinstance(error, HttpParserInvalidMethodError | HttpParserInvalidURLError):
        return REQUEST_LINE
    detail = str(error)
    return _WORDS.get(detail) or detail[:1].lower() + detail[1:]


HEAD_SECONDS = 30.0
# A body that is not complete by then is not coming.
BODY_SECONDS = 120.0
# While so much waits unparsed nothing more is read. Not at once: only who reads hears of a client
# that leaves.
READ_AHEAD_BYTES_MAX = 16 * 1024
# Longer than any method that the parser knows.
METHOD_BYTES_MAX = 32
# What of heads and bodies in chunks is parsed in one turn of the loop, which everybody else waits
# for: lines, as each may be a field or half a chunk, and bytes, as many as are read at a time. Of a
# body whose size is known any number of bytes costs as little.
TURN_LINES = 1024
TURN_BYTES = READ_BYTES_MAX
# What one connection holds of a client that has shown no key.
CONNECTION_BYTES_MAX = 256 * 1024


class Connection(FlowControl):
    """A client's connection."""

    __slots__ = (
        "_body_bytes",
        "_head_deadline",
        "_is_head",
        "_is_parsing",
        "_is_stray",
        "_is_timed",
        "_is_turn_over",
        "_is_upgrading",
        "_kept_bytes",
        "_lines",
        "_method",
        "_parser",
        "_pieces",
        "_request",
        "_start",
        "_state",
        "_target",
        "_unread",
    )

    def __init__(self, state: ServerState) -> None:
        super().__init__(state.loop, state.ready, state.idle_seconds)
        self._state = state
        self._parser = HttpRequestParser(self)
        self._unread = ReadBuffer()
        self._request: Request | None = None  # from the end of its head to its response's
        self._is_parsing = False  # a handler further up the stack does
        self._is_turn_over = False  # nothing is parsed before the loop's next turn
        self._is_head = False
        self._head_deadline = FOREVER  # of one that is under way in a drain, however it gets on
        self._is_timed = True  # the deadline is that of what is read
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []  # of the head, or the trailer, being read
        self._kept_bytes = 0  # parsed since there was a head or a piece of a body
        self._body_bytes = 0  # still to come, or CHUNKED
        self._pieces: list[bytes] = []  # of the body, in the part that is being parsed
        self._start = b""  # of a head, at least as far as its method goes
        self._is_stray = False  # that is none which the parser knows
        self._method = ""  # of the request being read, when the parser does not know it
        self._is_upgrading = False  # the parser stops at its head, the body is still to be read

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "ending" if self._is_ending else "open"
        return f"<Connection {state} {self._request} {self._unread}>"

    def is_responding(self) -> bool:
        return self._request is not None

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.remote_ip = peer[0]
        # With TLS the file was judged before its handshake.
        has_tls = transport.get_extra_info("sslcontext") is not None
        sock = None if has_tls else transport.get_extra_info("socket")
        if not self._state.has_file(0 if sock is None else sock.fileno()):
            self._state.connections.add(self)
            self._refuse(GatewayError(NO_CHANNEL_AVAILABLE, _FULL), "")
            # It may not keep its file while it reads that, and is no room for the next one.
            self._state.leaving.pop(self, None)
            self.stop()
        elif not self._state.admits(self):
            self._refuse(GatewayError(NO_CHANNEL_AVAILABLE, _FULL), "")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._state.left(self)
        request, self._request = self._request, None
        self._unread.clear()
        self._lines = []
        del self._parser  # which holds this object: it would all wait for the collector
        if request is not None:
            request.lost()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.read_on()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the next read goes: all connections have one buffer, emptied at once."""
        return self._state.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self._state.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Take what was read, and parse what may be parsed of it now."""
        if self._is_ending:
            self.drop(len(data))
            return
        self._unread.add(data)
        self.read_on()

    # --- Parsing, part by part ---

    def read_on(self) -> None:
        """Parse what waits, as far as it is its turn; read more as long as little is left."""
        if self._is_parsing or self.is_closed:
            return
        unread = self._unread
        self._is_parsing = True
        lines, size = TURN_LINES, TURN_BYTES
        try:
            while unread.left_bytes and self._is_wanted():
                if self._body_bytes > 0:
                    self._parse_sized(unread)
                    continue
                part = self._parse_lines(unread)
                lines -= part.count(b"\n")
                size -= len(part)
                if lines <= 0 or size <= 0:
                    self._end_turn()
        finally:
            self._is_parsing = False
        if self._is_ending:
            unread.clear()
        elif not self._is_timed:
            self._wait_for_rest()
        if self._is_turn_over or unread.kept_bytes > READ_AHEAD_BYTES_MAX:
            self.hold()
        elif self._is_held:
            self.resume()

    def _is_wanted(self) -> bool:
        """Whether a request takes the bytes that come next."""
        if self._is_turn_over:
            return False
        request = self._request
        if request is not None:
            return request.is_ready and not request.is_complete
        return not self._is_ending and (self._is_head or not self._is_paused)

    def _parse_sized(self, unread: ReadBuffer) -> None:
        part = unread.take(self._body_bytes)
        self._body_bytes -= len(part)
        self._parse(part)
        if self._pieces:
            self._hand_over()

    def _parse_lines(self, unread: ReadBuffer) -> bytes:
        """Parse a part of a head or of a body in chunks, at most TURN_LINES of it; return it."""
        if self._request is None and not self._is_head:
            unread.skip_line_ends()
            if not unread.left_bytes:
                return b""
            self._is_head = True
            self._is_timed = False
            self._target = b""
        part = unread.take_lines(HEAD_BYTES_MAX + 1 - self._kept_bytes, TURN_LINES)
        self._kept_bytes += len(part)
        if self._is_stray:
            self._unknown_method(part)
        else:
            self._parse(part)
        if self._pieces:
            self._hand_over()
        elif self._kept_bytes > HEAD_BYTES_MAX:
            self._fail(TOO_LARGE)
        return part

    def _parse(self, part: bytes) -> None:
        """Have it parsed, and hear what stopped that.

        Without its traceback: that would hold on to the data until the collector comes.
        """
        is_head = self._is_head
        try:
            self._parser.feed_data(part)
        except HttpParserCallbackError as error:
            fault = error.__context__
            if not isinstance(fault, HeadFault):
                raise
            self._fail(str(fault.with_traceback(None)))
        except HttpParserUpgrade:
            self._ignore_upgrade()
        except HttpParserInvalidMethodError:
            self._unknown_method(part)
            return
        except HttpParserError as error:
            if self._request is not None and is_head:
                self._begin()  # its head states no end: it has its own refusal
            self._fail(in_words(error.with_traceback(None)))
        if is_head:
            if self._is_head:
                self._start += part[: METHOD_BYTES_MAX - len(self._start)]
            elif not self._is_ending:
                self._begin()

    def _end_turn(self) -> None:
        """Let others have theirs."""
        if not self._is_turn_over:
            self._is_turn_over = True
            self.loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_turn_over = False
        self.read_on()

    # --- A head ---

    def on_url(self, url: bytes) -> None:
        if self._is_head:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lines = self._lines
        lines.append((name, value))
        if len(lines) >= HEAD_LINES_MAX:  # with the request line
            raise HeadFault(TOO_MANY)

    def on_headers_complete(self) -> None:
        if not self._is_head:
            self._is_upgrading = False  # the second parser has come to where the first stopped
            return
        if self._kept_bytes > HEAD_BYTES_MAX:
            raise HeadFault(TOO_LARGE)
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise HeadFault(f"its request line names HTTP/{version}, a version not supported")
        headers = headers_of(self._lines, self._state.names)
        self._lines = []
        method = self._method or parser.get_method().decode("latin-1")
        target = self._target.decode("latin-1")
        request = self._request_of(method, target, f"HTTP/{version}", headers)
        connection_header = headers.get("Connection", "").lower()
        if method not in METHODS:
            request.keeps_alive = False
        else:
            request.keeps_alive = (
                "close" not in connection_header
                if version == "1.1"
                else "keep-alive" in connection_header
            )
        self._body_bytes = headers.body_bytes()
        if parser.should_upgrade():
            self._is_upgrading = "Content-Length" in headers or "Transfer-Encoding" in headers
        self._is_head = False
        self._is_timed = False
        self._start = b""
        self._method = ""
        self._kept_bytes = 0
        self._request = request
        self._state.idle.pop(self, None)

    def _request_of(
        self, method: str, target: str, version: str, headers: RequestHeaders
    ) -> Request:
        return Request(self, self._state.application, method, target, version, headers)

    # --- Its body ---

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        if self._is_upgrading:
            return
        if self._pieces:
            self._hand_over()
        request = self._request
        assert request is not None
        self._body_bytes = 0
        self._kept_bytes = 0
        if self._lines:
            self._lines = []
        self._is_timed = True
        self.disarm()
        request.completed()

    def _hand_over(self) -> None:
        """Give the handler the pieces of a part, be they ever so small, as one."""
        pieces, self._pieces = self._pieces, []
        self._kept_bytes = 0
        if self._request is not None:
            self._request.take(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    # --- One request after another ---

    def _begin(self) -> None:
        request = self._request
        assert request is not None
        request.begin()

    def _wait_for_rest(self) -> None:
        """Not all of a request is here."""
        if self._is_head:
            self._is_timed = not self._state.is_draining  # in a drain each piece moves the deadline
            deadline = self.loop.time() + HEAD_SECONDS
            if not self._is_timed:  # a connection has one head in a drain: its response ends it
                self._head_deadline = min(self._head_deadline, deadline)
                deadline = min(self._head_deadline, self.loop.time() + LAST_CALL_SECONDS)
            self.arm(deadline)
        elif self._request is not None and not self._request.is_complete:
            self._is_timed = True
            self.arm(self.loop.time() + BODY_SECONDS)

    def response_sent(self, request: Request, last: bytes) -> None:
        """The response of the current request is complete but for its last bytes."""
        if self.is_closed:
            return
        if last:
            self._transport.write(last)
        self._request = None
        if not request.is_complete or self._is_ending:
            self.linger()
        elif not request.keeps_alive:
            self.stop()
        else:
            self._state.idle[self] = None
            self.arm(self.loop.time() + self._state.idle_seconds)
            if self._unread.left_bytes:
                self._end_turn()

    def drain(self) -> None:
        """The process is about to end; who is silent is kept for a moment more."""
        if self._request is None and not self._is_ending:
            if self._is_head:
                self._is_timed = False
                self._head_deadline = self._deadline
            self.arm(min(self._deadline, self.loop.time() + LAST_CALL_SECONDS))

    def linger(self, seconds: float = LINGER_SECONDS) -> None:
        self._state.leaves(self)
        super().linger(seconds)

    @property
    def is_silent(self) -> bool:
        """See `FlowControl`."""
        return not self._is_head and not self.has_unread and self.owes_nothing

    @property
    def farewell_seconds(self) -> float:
        """See `FlowControl`."""
        return self._state.farewell_seconds

    @property
    def has_unread(self) -> bool:
        """Whether something was read that is not parsed yet."""
        return self._unread.left_bytes > 0

    # --- What cannot be read ---

    def _fail(self, fault: str) -> None:
        """What comes is not HTTP, and nothing behind it is looked at."""
        if self._is_ending:
            return
        self._is_ending = True
        if self._request is not None:  # in the middle of its body
            self._request.body_fault(fault)
            return
        message = f"The request is malformed: {fault[:200]}."
        self._refuse(GatewayError(INVALID_REQUEST, message), self._target.decode("latin-1"))

    def _refuse(self, fault: GatewayError, target: str) -> None:
        """Answer a request that has no handler."""
        self._is_ending = True
        request = self._request_of("GET", target, "HTTP/1.1", RequestHeaders({}))
        request.keeps_alive = False
        request.is_complete = True
        self._request = request
        request.refuse(fault)

    def _unknown_method(self, part: bytes) -> None:
        """The parser takes HTTP's methods only. What others mean here is the endpoint's to say:

        the request is read as one that has a body, and keeps its name. Until its start line is
        whole it is not known to be one, and its bytes are kept.
        """
        start = self._start + part
        method = method_of(start)
        if method is not None:
            self._is_stray = False
            self._method = method
            self._parser = HttpRequestParser(self)
            self._parse(b"POST" + start[len(method) :])
        elif may_begin(start):
            self._is_stray = True
            self._start = start
        else:
            self._fail(REQUEST_LINE)

    def _ignore_upgrade(self) -> None:
        """This server stays with HTTP/1.1, as it may; the parser has to be told."""
        self._parser = HttpRequestParser(self)
        request = self._request
        if self._is_upgrading and request is not None:
            # It stopped before the body. Another one begins where the head has been read already.
            try:
                self._parser.feed_data(head_of_body(request.headers))
            except HttpParserError as error:
                self._begin()  # its head states no end, which the parser does not see in a CONNECT
                self._fail(in_words(error.with_traceback(None)))


_FULL = "The gateway has as many connections as it can take. Try again shortly."
