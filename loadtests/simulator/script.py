"""How one answer is delivered: the exact bytes of every write, worked out beforehand and acted out.

An answer's frames (`dialects/`) and its directive become a `Script`: head, steps, ending. `play`
acts it out on a connection; to cancel it is how the client's leaving arrives. A script without
any timing or fault is also one ready block of bytes (`whole`), which is written at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Final, Protocol

import msgspec

from loadtests.simulator.ask import Ask, Refusal
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import JSON, Dialect, Stream, encode
from loadtests.simulator.directives import ORDINARY, Directive
from loadtests.simulator.exchange import Outcome, Stats
from loadtests.simulator.files import Reply

LAST_CHUNK: Final = b"0\r\n\r\n"
BROKEN_CHUNK: Final = b"ZZ\r\nthis is no chunk size\r\n"
NOT_HTTP: Final = b"\x00\x01 this is not HTTP\r\n\r\n"
HTML: Final = b"<!doctype html><html><head><title>Bad gateway</title></head><body>502</body></html>"


def phrase(status: int) -> str:
    """The words that go with a status code."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def crlf(frame: bytes) -> bytes:
    """An event with CRLF line ends; JSON inside has no line ends of its own."""
    return frame.replace(b"\n", b"\r\n")


def split(data: bytes, size: int) -> list[bytes]:
    """The data in writes of `size` bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def first_bytes(frames: list[bytes], limit: int, *, is_chunked: bool) -> list[bytes]:
    """So many bytes of the frames; a frame that is cut still announces its whole length."""
    pieces: list[bytes] = []
    for frame in frames:
        if limit <= 0:
            break
        if limit >= len(frame):
            pieces.append(chunk(frame) if is_chunked else frame)
        else:
            size = b"%x\r\n" % len(frame) if is_chunked else b""
            pieces.append(size + frame[:limit])
        limit -= len(frame)
    return pieces


def broken(frame: bytes, how: str) -> bytes:
    """The frame with its JSON cut in the middle, or with bytes that are no UTF-8 in it."""
    body = frame.rstrip(b"\n")
    middle = len(body) * 2 // 3
    rest = b"" if how == "json" else b"\xff\xfe" + body[middle:]
    return body[:middle] + rest + frame[len(body) :]


# A larger answer goes out in steps, so that a slow reader holds it back.
WHOLE_LIMIT: Final = 256 * 1024
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
BROKEN_OFF: Final = "The simulated upstream failed in the middle of its answer."
COMMENT: Final = b": still at work\n\n"
BODILESS: Final = frozenset({204, 304})


class Ending(Enum):
    """What happens after the last step."""

    FINISH = "finish"  # the answer is whole; the connection may be used again
    CLOSE = "close"  # the answer is framed as it should be, then the connection is closed
    CUT = "cut"  # the connection goes away in the middle
    HANG = "hang"  # nothing more, until the client leaves
    ENDLESS = "endless"  # ever more, until the client leaves


class Script(msgspec.Struct, kw_only=True):
    """One delivery. `steps` are events (or the one body), each in one or more writes."""

    status: int
    directive: Directive
    head: bytes
    steps: list[list[bytes]] = []
    tail: bytes = b""
    ending: Ending = Ending.FINISH
    is_stream: bool = False
    more: Callable[[int], bytes] | None = None
    whole: bytes | None = None

    @property
    def events(self) -> int:
        """Stream events in the steps; a plain answer has none."""
        return len(self.steps) if self.is_stream else 0

    @property
    def bytes(self) -> bytes:
        """All of it, however it is delivered."""
        return self.head + b"".join(piece for step in self.steps for piece in step) + self.tail

    @property
    def is_ordinary(self) -> bool:
        """Nothing in the delivery needs time or care."""
        directive = self.directive
        return self.ending in (Ending.FINISH, Ending.CLOSE) and not (
            directive.refuse
            or directive.hang == "headers"
            or directive.pause is not None
            or directive.delay_headers_ms
            or directive.delay_event_ms
            or directive.split_bytes
        )


def response_script(
    dialect: Dialect, ask: Ask, response: Completion, directive: Directive
) -> Script:
    """The delivery of an answer, or of what the directive has instead of one."""
    instead = instead_script(dialect.error, directive, response.id)
    if instead is not None:
        return instead
    status = directive.status or 200
    if ask.stream:
        return _streamed(dialect, ask, response, directive, status)
    if directive.endless:
        script = _script(status, JSON, CHUNKED, response.id, directive)
        script.more = lambda _: chunk(b"x" * 1024)
        return _deliver(script, [b'{"endless":"'], Ending.ENDLESS, is_chunked=True)
    if directive.error_event is not None:  # what breaks a stream fails a plain answer
        body = dialect.error(500, stated_message(directive, 500))
        return body_script(500, directive, body, JSON, response.id)
    return body_script(status, directive, dialect.plain(ask, response), JSON, response.id)


def instead_script(
    error: Callable[[int, str], bytes], directive: Directive, digest: str = ""
) -> Script | None:
    """The delivery of what the directive has instead of any answer; None when it has nothing."""
    if directive.body is not None or (directive.status or 200) >= 300:
        return _stated(error, digest, directive)
    status = directive.status or 200
    if directive.malformed == "http":
        script = _script(status, JSON, b"", digest, directive)
        script.head, script.ending = NOT_HTTP, Ending.CUT
        return script
    if directive.malformed == "html":
        return body_script(status, directive, HTML, b"text/html", digest)
    return None


def refusal_script(dialect: Dialect, refusal: Refusal) -> Script:
    """The delivery of the simulator's own refusal, in the dialect's shape."""
    status = refusal.status
    own = refusal.body
    body = dialect.error(status, refusal.message) if own is None else own
    return body_script(status, ORDINARY, body, JSON, lines=refusal.lines)


def body_script(
    status: int,
    directive: Directive,
    body: bytes,
    content_type: bytes,
    digest: str = "",
    *,
    lines: bytes = b"",
) -> Script:
    """The delivery of one body with its length; `lines` are more header lines."""
    if status in BODILESS:
        script = _script(status, content_type, b"", digest, directive)
        return _deliver(script, [], Ending.FINISH, is_chunked=False)
    if directive.malformed in ("json", "utf8"):
        body = broken(body, directive.malformed)
    is_chunked = directive.malformed == "chunk"
    length = CHUNKED if is_chunked else b"Content-Length: %d\r\n" % len(body)
    script = _script(status, content_type, lines + length, digest, directive)
    return _deliver(script, [body], Ending.FINISH, is_chunked=is_chunked)


def reply_script(reply: Reply, directive: Directive) -> Script:
    """The delivery of a reply; between pieces of it a slow reader holds it back."""
    status, content_type, lines = reply.status, reply.content_type, reply.lines
    if reply.pieces is None:
        status = directive.status or status
        return body_script(status, directive, reply.body, content_type, lines=lines)
    script = _script(status, content_type, lines, "", directive)
    return _deliver(script, reply.pieces, Ending.FINISH, is_chunked=False)


def _stated(error: Callable[[int, str], bytes], digest: str, directive: Directive) -> Script:
    """The directive's own status or body."""
    status = directive.status or 200
    if isinstance(directive.body, str):
        body = directive.body.encode()
        content_type = b"text/html" if body.lstrip().startswith(b"<") else b"text/plain"
        return body_script(status, directive, body, content_type, digest)
    if directive.body is not None:
        return body_script(status, directive, encode(directive.body), JSON, digest)
    body = error(status, stated_message(directive, status))
    return body_script(status, directive, body, JSON, digest)


def _streamed(
    dialect: Dialect, ask: Ask, response: Completion, directive: Directive, status: int
) -> Script:
    stream = dialect.stream(ask, response)
    frames, ending = stream.frames, Ending.FINISH
    if directive.malformed in ("json", "utf8"):
        at = max(0, stream.text_end - 1)
        frames[at] = broken(frames[at], directive.malformed)
    if directive.endless:
        frames, ending = _endless_frames(stream, directive), Ending.ENDLESS
    if directive.comments_only:
        frames, ending, stream.more = [], Ending.ENDLESS, lambda _: COMMENT
    broken_at = directive.error_event
    if broken_at is not None and broken_at <= len(frames):
        message = directive.message or BROKEN_OFF
        frames = frames[:broken_at] + dialect.error_frames(ask, response, broken_at, message)
        ending = Ending.CLOSE
    more = stream.more
    is_crlf = dialect.uses_crlf if directive.crlf is None else directive.crlf
    if is_crlf:
        frames = [crlf(frame) for frame in frames]
    content_type = JSON if ask.as_array else dialect.stream_type
    lines = CHUNKED + b"Cache-Control: no-cache\r\n"
    if ending is Ending.CLOSE:
        lines += b"Connection: close\r\n"
    script = _script(status, content_type, lines, response.id, directive)
    script.is_stream = True
    script.more = lambda index: chunk(crlf(more(index)) if is_crlf else more(index))
    return _deliver(script, frames, ending, is_chunked=True)


def _endless_frames(stream: Stream, directive: Directive) -> list[bytes]:
    """The frames up to the endless part, and as much of it as a stop further on needs."""
    frames = stream.frames[: stream.text_end]
    events = max(_stop_after(directive) or 0, directive.error_event or 0)
    size, wanted = sum(map(len, frames)), directive.cut_after_bytes or 0
    while len(frames) < events or size < wanted + 1:
        frames.append(stream.more(len(frames)))
        size += len(frames[-1])
    return frames


def _script(
    status: int, content_type: bytes, lines: bytes, digest: str, directive: Directive
) -> Script:
    """One without steps; `lines` are header lines, the one that delimits the body among them."""
    first = f"HTTP/1.1 {status} {phrase(status)}\r\nContent-Type: ".encode()
    more = {"X-Request-Id": f"req_{digest[:32]}"} if digest else {}
    if directive.retry_after is not None:
        more["Retry-After"] = str(directive.retry_after)
    more |= directive.headers or {}
    stated = "".join(f"{name}: {value}\r\n" for name, value in more.items()).encode("latin-1")
    head = b"%b%b\r\n%b%b\r\n" % (first, content_type, stated, lines)
    return Script(status=status, directive=directive, head=head)


def _deliver(script: Script, frames: list[bytes], ending: Ending, *, is_chunked: bool) -> Script:
    """Fill in the steps: cuts, chunks, pieces; and the ready block when nothing stands against."""
    directive = script.directive
    script.ending = ending
    script.tail = LAST_CHUNK if is_chunked else b""
    if directive.malformed == "chunk" and is_chunked:
        frames = frames[: len(frames) // 2]
        script.tail, script.ending = BROKEN_CHUNK, Ending.CUT
    stop = _stop_after(directive)
    if stop is not None and stop <= len(frames):
        frames = frames[:stop]
        is_hang = directive.hang == stop
        script.tail, script.ending = b"", Ending.HANG if is_hang else Ending.CUT
    limit = directive.cut_after_bytes
    if limit is not None and limit < sum(map(len, frames)):
        pieces = first_bytes(frames, limit, is_chunked=is_chunked)
        script.tail, script.ending = b"", Ending.CUT
    else:
        pieces = [chunk(frame) for frame in frames] if is_chunked else frames
    size = directive.split_bytes
    script.steps = [split(piece, size) if size else [piece] for piece in pieces]
    if script.is_ordinary and sum(map(len, pieces)) <= WHOLE_LIMIT:
        script.whole = script.bytes
    return script


def _stop_after(directive: Directive) -> int | None:
    """After how many events the delivery stops, by hanging or by a cut."""
    stops = [directive.cut_after_events, directive.hang]
    return min((stop for stop in stops if isinstance(stop, int)), default=None)


def stated_message(directive: Directive, status: int) -> str:
    """The message of an error that a directive asks for."""
    result = f"The simulated upstream answers {status}: {phrase(status)}."
    return directive.message or result


class Wire(Protocol):
    """The connection as far as a delivery needs it."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None:
        """Wait while the client reads too slowly."""

    async def cut(self, how: str) -> None:
        """End the connection by `reset` or `close`, after what was written has left."""


async def play(script: Script, wire: Wire, stats: Stats) -> Outcome:
    """Deliver the script: `completed`, or `cut` when the connection was ended on purpose."""
    directive = script.directive
    if directive.refuse:
        await wire.cut(directive.cut)
        return "cut"
    if directive.delay_headers_ms:
        await asyncio.sleep(directive.delay_headers_ms / 1000)
    if directive.pause == "headers":
        await stats.resumption()
    if directive.hang == "headers":
        await _for_ever()
    size = directive.split_bytes
    await _put(split(script.head, size) if size else [script.head], wire, stats)
    pause = directive.delay_event_ms / 1000
    for number, pieces in enumerate(script.steps):
        if number and pause:
            await asyncio.sleep(pause)
        if number == directive.pause:
            await stats.resumption()
        await _put(pieces, wire, stats)
        stats.sent(events=script.is_stream, count_bytes=0)
    if script.ending is Ending.HANG:
        await _for_ever()
    if script.ending is Ending.ENDLESS:
        await _pour(script, wire, stats, pause)
    if script.tail:
        await _put([script.tail], wire, stats)
    if script.ending is Ending.CUT:
        await wire.cut(directive.cut)
        return "cut"
    return "completed"


async def _put(pieces: list[bytes], wire: Wire, stats: Stats) -> None:
    """Write the pieces one by one; several of them are kept apart by a turn of the loop."""
    for piece in pieces:
        wire.write(piece)
        stats.sent(events=0, count_bytes=len(piece))
        if len(pieces) > 1:
            await asyncio.sleep(0)
    await wire.drain()


async def _pour(script: Script, wire: Wire, stats: Stats, pause: float) -> None:
    """Write more and more, as fast as the client reads."""
    assert script.more is not None
    number = len(script.steps)
    while True:
        await asyncio.sleep(pause)  # a pause of nothing still lets the others have their turn
        await _put([script.more(number)], wire, stats)
        stats.sent(events=script.is_stream, count_bytes=0)
        number += 1


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
