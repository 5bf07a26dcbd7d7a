"""One client connection on httptools: requests are read ahead, and answered one after another.

Strict where lenience would let this server and one before it disagree on where a request ends
(request smuggling): the parser runs without any of its leniencies, and `framing.py` stands behind
it for what it lets through. A connection has one deadline, moved by what it waits for:

    what it waits for           until                       then
    a request                   IDLE_SECONDS                closed
      while the process drains  LAST_CALL_SECONDS           closed
    the rest of a head          HEAD_SECONDS                closed
    the rest of a body          BODY_SECONDS                cut
    an answer                   the call's own time-out     –
    the client to read its end  LINGER_SECONDS              cut
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from httptools import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserInvalidMethodError,
    HttpParserUpgrade,
    HttpRequestParser,
)
from tornado.httputil import RequestStartLine
from tornado.web import RequestHandler

from gw.web.connection import HEAD_BYTES_MAX, HEAD_LINES_MAX
from gw.web.errors import INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError
from gw.web.front.faults import in_words
from gw.web.front.head import TOO_LARGE, TOO_MANY, HeadFault, headers_of, method_of
from gw.web.front.pace import PacedConnection
from gw.web.front.request import FrontRequest
from gw.web.listener import LAST_CALL_SECONDS

if TYPE_CHECKING:
    from gw.web.front.listener import FrontListener

# A kept connection that stays silent for so long is closed. Longer than common load balancers
# keep theirs, so that they close first.
IDLE_SECONDS = 75.0
HEAD_SECONDS = 30.0
# A body that is not complete by then is not coming.
BODY_SECONDS = 120.0
# Requests read ahead of the one that is being answered.
PIPELINE_MAX = 8
# Of a body that comes before its handler is ready for it.
EARLY_BODY_BYTES_MAX = 256 * 1024


class PeerContext:
    """Who is at the other end, as `HTTPServerRequest` reads it."""

    __slots__ = ("protocol", "remote_ip")

    def __init__(self, remote_ip: str, scheme: str) -> None:
        self.remote_ip = remote_ip
        self.protocol = scheme


class FrontConnection(PacedConnection):
    """A client's connection."""

    __slots__ = (
        "_begun",
        "_current",
        "_handed_on",
        "_incoming",
        "_is_head",
        "_is_upgrading",
        "_lines",
        "_listener",
        "_method",
        "_parser",
        "_target",
        "_unseen_bytes",
        "_waiting",
        "context",
    )

    context: PeerContext

    def __init__(self, listener: FrontListener, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop, listener.ready, _idle_seconds(listener))
        self._listener = listener
        self._parser = HttpRequestParser(self)
        self._incoming: FrontRequest | None = None  # being read
        self._current: FrontRequest | None = None  # being answered
        self._waiting: list[FrontRequest] = []  # read, or being read, behind it; mostly none
        self._is_head = False
        self._target = b""
        self._lines: list[tuple[bytes, bytes]] = []  # of the head, or the trailer, being read
        self._handed_on = 0  # heads begun and pieces of bodies
        self._unseen_bytes = 0  # which the parser has kept since
        self._begun = 0  # requests of which a part is in the last read
        self._method = ""  # of the request being read, when the parser does not know it
        self._is_upgrading = False  # the parser stops at its head, the body is still to be read

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else "ending" if self._is_ending else "open"
        return f"<FrontConnection {state} {self._current} +{len(self._waiting)}>"

    def is_answering(self) -> bool:
        return self._current is not None

    # --- From the event loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        remote_ip = peer[0] if isinstance(peer, tuple) else ""
        self.context = PeerContext(remote_ip, self._listener.scheme)
        if not self._listener.admits(self):
            full = GatewayError(NO_CHANNEL_AVAILABLE, _FULL)
            self._refuse(FrontRequest(self), full, "")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._listener.left(self)
        current, self._current = self._current, None
        self._waiting.clear()
        self._incoming = None
        del self._parser  # which holds this object: it would all wait for the collector
        if current is not None:
            current.lost()

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self._begun = 0 if self._incoming is None else 1
        handed_on = self._handed_on
        fault = self._feed(data)
        if fault is not None:
            self._stopped(fault, data)
            return
        if self._incoming is None or self._handed_on != handed_on:
            self._unseen_bytes = 0
            return
        # Nothing but a part of a head or of a trailer, which the parser keeps until it is whole.
        self._unseen_bytes += len(data)
        if self._unseen_bytes > HEAD_BYTES_MAX:
            self._fail(TOO_LARGE)

    def _stopped(self, fault: HttpParserError | HttpParserUpgrade | HeadFault, data: bytes) -> None:
        """The parser went no further in what was read."""
        if isinstance(fault, HttpParserUpgrade):
            self._ignore_upgrade(data[fault.args[0] :])
        elif isinstance(fault, HttpParserInvalidMethodError):
            self._unknown_method(data, fault)
        elif isinstance(fault, HeadFault):
            self._fail(str(fault))
        else:
            self._fail(in_words(fault))

    def _feed(self, data: bytes) -> HttpParserError | HttpParserUpgrade | HeadFault | None:
        """Have it parsed, and say what stopped that.

        Without its traceback: that would hold on to the data until the collector comes.
        """
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError as error:
            if not isinstance(error.__context__, HeadFault):
                raise
            return error.__context__.with_traceback(None)
        except (HttpParserError, HttpParserUpgrade) as error:
            return error.with_traceback(None)
        return None

    # --- From the parser ---

    def on_message_begin(self) -> None:
        if self._is_upgrading:
            return
        self._begun += 1
        self._handed_on += 1
        self._is_head = True
        self._target = b""
        self._lines = []
        self._incoming = FrontRequest(self)
        if self._current is None:
            self.arm(self._loop.time() + HEAD_SECONDS)

    def on_url(self, url: bytes) -> None:
        if self._is_head:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        lines = self._lines
        lines.append((name, value))
        if len(lines) >= HEAD_LINES_MAX:  # with the request line
            raise HeadFault(TOO_MANY)

    def on_headers_complete(self) -> None:
        incoming = self._incoming
        assert incoming is not None
        if not self._is_head:
            self._is_upgrading = False  # the second parser has come to where the first stopped
            return
        if self._is_ending:  # refused meanwhile, with more requests behind it in the same read
            raise HeadFault("nothing is read behind a refused request")
        parser = self._parser
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise HeadFault(f"its request line names HTTP/{version}, a version not supported")
        headers = headers_of(self._lines, self._listener.names, target_bytes=len(self._target))
        self._lines = []
        method = self._method or parser.get_method().decode("latin-1")
        self._method = ""
        incoming.headers = headers
        incoming.start_line = RequestStartLine(
            method, self._target.decode("latin-1"), f"HTTP/{version}"
        )
        said = headers.get("Connection", "").lower()
        if method not in RequestHandler.SUPPORTED_METHODS:
            incoming.keeps_alive = False
        else:
            incoming.keeps_alive = "close" not in said if version == "1.1" else "keep-alive" in said
        self._is_head = False
        if parser.should_upgrade():
            self._is_upgrading = "Content-Length" in headers or "Transfer-Encoding" in headers
        self._arrived(incoming)

    def on_body(self, body: bytes) -> None:
        incoming = self._incoming
        assert incoming is not None
        self._handed_on += 1
        incoming.take(body)
        if incoming.pending_bytes > EARLY_BODY_BYTES_MAX:
            self.hold()

    def on_message_complete(self) -> None:
        if self._is_upgrading:
            return
        incoming, self._incoming = self._incoming, None
        assert incoming is not None
        if incoming is self._current:
            self.disarm()
        incoming.completed()

    # --- One request after another ---

    def _arrived(self, request: FrontRequest) -> None:
        if self._current is None:
            self._begin(request)
            return
        self._waiting.append(request)
        if len(self._waiting) >= PIPELINE_MAX:
            self.hold()

    def _begin(self, request: FrontRequest) -> None:
        self._current = request
        if request.fault is not None:
            self._is_ending = True
            self._listener.refuse(request, request.fault)
            return
        if request.is_complete:
            self.disarm()
        else:
            self.arm(self._loop.time() + BODY_SECONDS)
        request.begin(self._listener.application.start_request(self, request))

    def answered(self, request: FrontRequest, last: bytes) -> None:
        """The answer of the current request is complete but for its last bytes."""
        if self.is_closed:
            return
        if last:
            self._transport.write(last)
        self._current = None
        if not request.is_complete or (self._is_ending and not self._waiting):
            self.linger()
        elif not request.keeps_alive:
            self.stop()
        elif self._waiting:
            self._begin(self._waiting.pop(0))
            if len(self._waiting) < PIPELINE_MAX:
                self.resume()
        elif self._incoming is None:
            self.arm(self._loop.time() + _idle_seconds(self._listener))
        else:
            self.arm(self._loop.time() + HEAD_SECONDS)

    def drain(self) -> None:
        """The process is about to end; who is silent is kept for a moment more."""
        if self._current is None and self._incoming is None and not self._is_ending:
            self.arm(self._loop.time() + _idle_seconds(self._listener))

    def body_wanted(self) -> None:
        """The current request's handler takes its body now."""
        if len(self._waiting) < PIPELINE_MAX:
            self.resume()

    # --- What cannot be read ---

    def _fail(self, fault: str) -> None:
        """What comes is not HTTP, and nothing behind it is looked at."""
        if self._is_ending:
            return
        incoming, self._incoming = self._incoming, None
        self._is_ending = True
        self.resume()
        target = self._target.decode("latin-1")
        if incoming is None:
            incoming = FrontRequest(self)
            target = ""  # that was of the one before
        elif not self._is_head:  # in the middle of a body
            if incoming is not self._current:
                self._waiting.remove(incoming)
            else:
                incoming.body_fault(fault)
                return
        message = f"The request is malformed: {fault[:200]}."
        self._refuse(incoming, GatewayError(INVALID_REQUEST, message), target)

    def _refuse(self, request: FrontRequest, fault: GatewayError, target: str) -> None:
        """Answer a request that has no handler, when it is its turn."""
        self._is_ending = True
        request.fault = fault
        request.start_line = RequestStartLine("GET", target, "HTTP/1.1")
        request.keeps_alive = False
        request.is_complete = True
        if self._current is None:
            self._begin(request)
        else:
            self._waiting.append(request)

    def _unknown_method(self, data: bytes, error: HttpParserError) -> None:
        """The parser takes HTTP's methods only. What others mean here is the endpoint's to say:

        the request is read as one that has a body, and keeps its name. Where something stands
        before it in the same read nobody says where it begins, and it is refused.
        """
        start = data.lstrip(b"\r\n")
        method = method_of(start) if self._begun == 1 and self._is_head else None
        if method is None or self._method:
            self._fail(in_words(error))
            return
        self._parser = HttpRequestParser(self)
        self._method = method
        self.data_received(b"POST" + start[len(method) :])

    def _ignore_upgrade(self, rest: bytes) -> None:
        """This server stays with HTTP/1.1, as it may; the parser has to be told."""
        if self._is_ending:
            return
        self._parser = HttpRequestParser(self)
        incoming = self._incoming
        if self._is_upgrading and incoming is not None:
            # It stopped before the body. Another one begins where the head has been read already.
            headers = incoming.headers
            name = "Content-Length" if "Content-Length" in headers else "Transfer-Encoding"
            framing = f"POST / HTTP/1.1\r\n{name}: {headers[name]}\r\n\r\n".encode("latin-1")
            self._is_head = False
            self._parser.feed_data(framing)
        if rest:
            self.data_received(rest)


_FULL = "The gateway has as many connections as it can take. Try again shortly."


def _idle_seconds(listener: FrontListener) -> float:
    """How long a connection is kept on which nothing comes."""
    return LAST_CALL_SECONDS if listener.is_draining else IDLE_SECONDS
