"""An answer is the same answer wherever the network cuts it, and whatever is wrong with it."""

import asyncio
import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.errors import UpstreamCut, UpstreamMalformed
from channels.http.connection import BARE_BYTES_MAX, HEAD_BYTES_MAX, UpstreamConnection
from tests.support.rows import cases, each
from tests.unit.channels.raw_server import OK, STREAM, chunk

EVENTS = chunk(b"data: 1\n\n") + chunk(b"data: \xc3\xa9\n\n")
CHUNKED = STREAM + EVENTS + b"0\r\n\r\n"
UNTIL_CLOSE = b"HTTP/1.1 200 OK\r\nServer: x\r\n\r\ndata: 1\n\ndata: [DONE]\n\n"
LONG_HEAD = b"HTTP/1.1 200 OK\r\nX: %b\r\nContent-Length: 0\r\n\r\n"
RESPONSES = (
    OK,
    CHUNKED,
    UNTIL_CLOSE,
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" + OK,
    b"HTTP/1.1 204 Nothing\r\nX-Empty:\r\nX-Two: a\r\nX-Two: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc",
    STREAM + EVENTS + b"0\r\nX-Trailer: late\r\n\r\n",
    STREAM + b"5;name=value\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}",
    OK + b"\r\n",
)
BROKEN = (
    OK + OK,
    OK[:-1],
    STREAM + EVENTS + b"no size\r\n",
    STREAM + EVENTS,
    b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    STREAM.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n") + b"3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
    b"HTTP/1.1 099 Less\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"",
)


class Line(asyncio.Transport):
    """What a connection sees of the network: it is there until it is aborted."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True

    def is_closing(self) -> bool:
        return not self.is_open

    def abort(self) -> None:
        self.is_open = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.is_open

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_extra_info(self, name: str, default: object = None) -> object:
        return _NoSocket()


class SlowLine(Line):
    """Says whether anybody wants more of it."""

    is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


class _NoSocket:
    def fileno(self) -> int:
        raise OSError("there is none")


class NoOwner:
    """Has no other use for a connection, and lets it write at once."""

    on_joined = staticmethod(UpstreamConnection.write_joined)

    def on_open(self, connection: UpstreamConnection) -> None: ...

    def on_idle(self, connection: UpstreamConnection) -> None: ...

    def on_closed(self, connection: UpstreamConnection) -> None: ...


def outcome(pieces: list[bytes], *, ends: bool = True) -> tuple[object, ...]:
    """What becomes of an answer that comes in these pieces, and of its connection."""
    connection = UpstreamConnection(NoOwner())
    line = Line()
    connection.connection_made(line)
    response = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"")
    for piece in pieces:
        if line.is_open:
            connection.data_received(piece)
    is_kept = line.is_open and "idle" in repr(connection)
    if line.is_open and ends:
        connection.eof_received()
    fault = response.fault
    return (
        response.status,
        dict(response.fields) if response.status else None,  # before its end nobody sees a head
        b"".join(response.pieces),
        type(fault),
        fault.detail if isinstance(fault, UpstreamMalformed) else "",
        is_kept,
    )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place for place in places if 0 < place < len(data)}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@each("reply", RESPONSES + BROKEN)
def test_answer_byte_by_byte_is_the_answer_in_one_piece(reply: bytes) -> None:
    assert outcome([reply[i : i + 1] for i in range(len(reply))]) == outcome([reply])


@settings(max_examples=150)
@given(
    reply=st.sampled_from(RESPONSES + BROKEN),
    damage=st.lists(st.tuples(st.integers(0, 200), st.binary(max_size=3)), max_size=2),
    places=st.lists(st.integers(0, 250), max_size=6),
)
def test_damaged_answer_is_the_same_wherever_it_is_cut(
    reply: bytes, damage: list[tuple[int, bytes]], places: list[int]
) -> None:
    for place, replacement in damage:
        reply = reply[:place] + replacement + reply[place + 1 :]
    assert outcome(cut(reply, places)) == outcome([reply])


@each("size", range(HEAD_BYTES_MAX - 2, HEAD_BYTES_MAX + 3))
def test_head_is_bounded_to_the_byte(size: int) -> None:
    response = LONG_HEAD % (b"x" * (size - len(LONG_HEAD % b"")))
    assert len(response) == size
    whole = outcome([response])
    assert whole[3] is (type(None) if size <= HEAD_BYTES_MAX else UpstreamMalformed)
    assert outcome([response[:100], response[100:20_000], response[20_000:]]) == whole
    assert outcome([response[:HEAD_BYTES_MAX], response[HEAD_BYTES_MAX:]]) == whole


@each("reply", RESPONSES)
def test_sound_answer_ends_without_a_fault(reply: bytes) -> None:
    status, _, body, fault, _, is_kept = outcome([reply])
    assert (status, fault) == (204 if b" 204 " in reply else 200, type(None))
    assert body or status == 204
    assert is_kept == (
        reply is not UNTIL_CLOSE and b"HTTP/1.0" not in reply and b": close" not in reply
    )


def test_long_body_behind_a_short_head_is_not_counted_as_head() -> None:
    body = b"x" * (3 * HEAD_BYTES_MAX)
    response = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    assert outcome([response])[2:4] == (body, type(None))


@cases("framing", b"5;name=", b"0\r\nX-Trailer: ")
def test_framing_without_end_is_a_cut(framing: bytes) -> None:
    endless = [b"x" * 1000] * (BARE_BYTES_MAX // 1000)
    begun = [STREAM + EVENTS, framing]
    assert outcome([*begun, *endless[1:]], ends=False)[3] is type(None)
    assert outcome([*begun, *endless, b"x" * 1000], ends=False)[3] is UpstreamCut


def test_head_that_is_here_is_an_answer_even_if_its_body_is_broken() -> None:
    assert outcome([STREAM + EVENTS + b"no size\r\n"])[:4] == (
        200,
        {b"content-type": b"text/event-stream", b"transfer-encoding": b"chunked"},
        b"data: 1\n\ndata: \xc3\xa9\n\n",
        UpstreamCut,
    )
