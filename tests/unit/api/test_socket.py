"""Messages of a WebSocket: they pass what a POST passes, before they are parsed and received."""

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.body_budget import BodyBudget
from channels.dialects.responses import message as message_module
from channels.dialects.responses.message import read_create
from channels.errors import InvalidRequest
from channels.json.weight import READ_VALUES_MAX
from channels.registry import Registry
from gw.api.chat import socket as api
from gw.api.chat.socket import Conversation, Turn
from gw.errors import GatewayError
from gw.http import websocket
from gw.http.body import SMALL_BODY_BYTES
from gw.http.websocket import PIECE_OVERHEAD_BYTES, SOCKET_KEPT_BYTES_MAX, Kept, SocketBook
from tests.support.aio import eventually
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model
from tests.unit.api.fakes import KEY, FakeConfig, World, make_principal
from tests.unit.http.client import Address, Client, served

MASK = b"\x01\x02\x03\x04"
TEXT, CONTINUED, BINARY, CLOSE, PING, PONG = 1, 0, 2, 8, 9, 10
MIB = 1024 * 1024


def frame_head(size: int, opcode: int = TEXT, *, is_final: bool = True) -> bytes:
    first = (0x80 if is_final else 0) | opcode
    if size < 126:
        return struct.pack("!BB", first, 0x80 | size) + MASK
    if size < 1 << 16:
        return struct.pack("!BBH", first, 0x80 | 126, size) + MASK
    return struct.pack("!BBQ", first, 0x80 | 127, size) + MASK


def masked(data: bytes) -> bytes:
    mask = (MASK * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(data), "big")


def frame(data: bytes, opcode: int = TEXT, *, is_final: bool = True) -> bytes:
    return frame_head(len(data), opcode, is_final=is_final) + masked(data)


class SocketClient:
    """One end of a WebSocket that sends frames as they are."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def send(self, data: bytes) -> None:
        await self.client.send(data)

    async def frame(self) -> tuple[int, bytes]:
        """The next frame: opcode and payload."""
        first, second = await self.client.exactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self.client.exactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.client.exactly(8))
        return first & 0xF, await self.client.exactly(size)

    async def event(self) -> dict[str, Any]:
        opcode, data = await self.frame()
        assert opcode == TEXT, (opcode, data)
        event: dict[str, Any] = json.loads(data)
        return event

    async def refusal(self) -> tuple[int, str]:
        """Status and code of an error, which is the next event."""
        event = await self.event()
        assert event["type"] == "error", event
        return event["status"], event["error"]["code"]


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[SocketClient]:
    async with address.client() as client:
        await client.send(
            b"GET /v1/responses HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
            + KEY.encode()
            + b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert (await client.response(has_body=False)).status == 101
        yield SocketClient(client)


class Watched(BodyBudget):
    """A budget that remembers the most that was in use."""

    most = 0

    def take_spare(self, size_bytes: int) -> bool:
        taken = super().take_spare(size_bytes)
        self.most = max(self.most, self.used_bytes)
        return taken


def a_world(limit_bytes: int = 512 * MIB) -> tuple[World, Watched]:
    registry = Registry.of([make_channel("a")], [make_model("a", id="gpt")])
    bodies, config = Watched(limit_bytes), FakeConfig(max_body_bytes=64 * MIB)
    return World(registry=registry, config=config, bodies=bodies), bodies


def created(**members: Any) -> bytes:
    whole = {"type": "response.create", "model": "nothing", "input": "Hello", **members}
    return json.dumps(whole).encode()


LARGE = created(input="x" * (4 * SMALL_BODY_BYTES))
NOT_FOUND = (400, "model_not_found")


@contextmanager
def unread() -> Iterator[list[object]]:
    """Nothing parses a message meanwhile."""
    seen: list[object] = []

    def read(*message: object) -> None:
        seen.append(message)
        raise AssertionError("it is parsed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(api, "read_create", read)
        patch.setattr(api, "offloaded", read)
        yield seen


def broke(world: World) -> None:
    world.money.available_nano_usd = 0


def limited(world: World) -> None:
    world.keys.known[KEY] = make_principal(rpm_limit=1)  # the hand-shake is one


def gone(world: World) -> None:
    world.keys.known.clear()


def full(world: World) -> None:
    world.overload.limit = 0


def ending(world: World) -> None:
    world.in_flight.is_refusing = True


@cases(
    "why, refused",
    (broke, (402, "quota_exceeded")),
    (limited, (429, "rate_limit_exceeded")),
    (gone, (401, "invalid_api_key")),
    (full, (503, "no_channel_available")),
    (ending, (503, "no_channel_available")),
)
@cases("generate", True, False)
async def test_a_message_is_refused_before_it_is_received(
    why: Callable[[World], None], refused: tuple[int, str], generate: bool
) -> None:
    world, bodies = a_world()
    world.keys.known[KEY] = make_principal(rpm_limit=1 if why is limited else None)
    message = created(input="x" * (15 * MIB), generate=generate)
    async with served(world.application()) as address, opened(address) as socket:
        why(world)
        with unread() as seen:
            await socket.send(frame_head(len(message)) + masked(message[: 2 * SMALL_BODY_BYTES]))
            assert await socket.refusal() == refused
            await socket.send(masked(message[2 * SMALL_BODY_BYTES :]))
            await socket.send(frame(created(generate=generate)))  # a small one as well
            assert await socket.refusal() == refused
        assert (seen, bodies.most) == ([], 0)
        assert world.limits.in_flight("acct_1") == 0


async def test_unfinished_messages_stay_within_the_budget_and_give_back_what_they_took() -> None:
    world, bodies = a_world(32 * MIB)
    size = 14 * MIB
    async with served(world.application()) as address:

        async def begun(socket: SocketClient) -> None:
            await socket.send(frame_head(size, is_final=False))
            for _ in range(14):
                await socket.send(masked(b" " * (MIB - 4)))

        async def one() -> None:
            async with opened(address) as socket:
                sending = asyncio.create_task(begun(socket))
                refusal = asyncio.create_task(socket.refusal())
                await asyncio.wait((refusal, over), return_when=asyncio.FIRST_COMPLETED)
                sending.cancel()
                if refusal.done():
                    refused.append(await refusal)
                refusal.cancel()
                await over
                socket.client.leave()

        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        refused: list[tuple[int, str]] = []
        sockets = [asyncio.create_task(one()) for _ in range(16)]
        await eventually(lambda: len(refused) >= 14)
        await eventually(lambda: bodies.used_bytes > 26 * MIB)
        assert refused == [(503, "no_channel_available")] * len(refused)
        assert len(refused) == 14
        assert bodies.most <= 32 * MIB
        over.set_result(None)
        await asyncio.gather(*sockets)
        await eventually(lambda: bodies.used_bytes == 0)


async def test_message_counts_until_its_call_has_ended() -> None:
    world, bodies = a_world()
    async with served(world.application()) as address, opened(address) as socket:
        await socket.send(frame(LARGE))
        assert await socket.refusal() == NOT_FOUND
        # It and the body of its call exist at a time, then that and what is kept of it.
        assert 2 * len(LARGE) <= bodies.most <= 3 * len(LARGE) + SMALL_BODY_BYTES
        await eventually(lambda: bodies.used_bytes == 0)
        assert [(row.http_status, row.model) for row in world.refusals] == [(400, "nothing")]


async def test_message_of_many_values_is_read_elsewhere() -> None:
    world, _ = a_world()
    message = created(input=[{"role": "user", "content": "x"}] * READ_VALUES_MAX)
    try:
        async with served(world.application()) as address, opened(address) as socket:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(message_module, "JsonObject", None)  # nothing is parsed here
                await socket.send(frame(message))
                assert await socket.refusal() == NOT_FOUND
                await socket.send(frame(message.replace(b"create", b"cancel")))
                assert await socket.refusal() == (400, "invalid_request")
    finally:
        world.services.offload.close()


async def test_message_that_takes_too_long_is_refused_and_the_next_is_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, bodies = a_world()
    monkeypatch.setattr(websocket, "BODY_SECONDS", 0.0)
    async with served(world.application()) as address, opened(address) as socket:
        half = len(LARGE) // 2 // 4 * 4
        await socket.send(frame_head(len(LARGE)) + masked(LARGE[:half]))
        assert await socket.refusal() == (400, "invalid_request")
        await eventually(lambda: bodies.used_bytes == 0)
        await socket.send(masked(LARGE[half:]))
        await socket.send(frame(created()))
        assert await socket.refusal() == NOT_FOUND


@given(st.lists(st.integers(0, len(LARGE)), max_size=5), st.booleans())
def test_message_is_whole_however_it_is_cut(cuts: list[int], pings: bool) -> None:
    asyncio.run(_sent_in_frames(cuts, pings))


async def _sent_in_frames(cuts: list[int], pings: bool) -> None:
    seen: list[bytes] = []

    def read(message: bytes) -> Any:
        seen.append(message)
        raise InvalidRequest("seen")

    world, _ = a_world()
    async with served(world.application()) as address, opened(address) as socket:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(api, "read_create", read)
            ends = [0, *sorted(cuts), len(LARGE)]
            for number, end in enumerate(ends[1:], start=1):
                piece = LARGE[ends[number - 1] : end]
                opcode = TEXT if number == 1 else CONTINUED
                await socket.send(frame(piece, opcode, is_final=number == len(ends) - 1))
                if pings:
                    await socket.send(frame(b"p", PING))
            while (response := await socket.frame())[0] != TEXT:
                assert response == (PONG, b"p")
    assert seen == [LARGE]


@cases(
    "sent, code",
    (frame(b"binary", BINARY), 1003),
    (frame(b"x" * SMALL_BODY_BYTES, BINARY), 1003),
    (frame_head(33 * MIB), 1009),
    (frame(b"x", is_final=False) + frame_head(32 * MIB, CONTINUED), 1009),
    (frame(b"x", CONTINUED), None),
    (frame(b"x", is_final=False) + frame(b"x"), None),
    (frame(b"x", PING, is_final=False), None),
    (frame_head(126, PING), None),
    (b"\x81\x01x", None),  # not masked
    (b"\xc1\x81" + MASK + b"x", None),  # a bit of an extension
)
async def test_what_no_message_may_be_closes_the_socket(sent: bytes, code: int | None) -> None:
    world, bodies = a_world()
    async with served(world.application()) as address, opened(address) as socket:
        await socket.send(sent)
        if code is not None:
            opcode, data = await socket.frame()
            assert (opcode, struct.unpack("!H", data[:2])[0]) == (CLOSE, code)
        if code != 1003:  # which waits for the client's own close
            assert await socket.client.ended()
    await eventually(lambda: bodies.used_bytes == 0)


class NoSocket:
    """Takes events."""

    def send(self, text: bytes) -> "asyncio.Future[None]":
        return asyncio.get_running_loop().create_future()


def turn_of(book: SocketBook, response_id: str, *items: bytes, account: str = "a") -> Turn:
    turn = Turn(NoSocket(), book, account)  # type: ignore[arg-type]
    turn.response_id = response_id
    for item in items:
        turn.keep(item)
    return turn


def test_a_conversation_is_kept_and_continued() -> None:
    bodies = BodyBudget(512 * MIB)
    book = SocketBook(bodies)
    one = Conversation(book)
    one.take(turn_of(book, "r1", b"1", b"22"))
    assert one.items_of("r1").pieces == [b"1", b"22"]
    more = turn_of(book, "r2", b"3")
    more.continued = one.items_of("r1")
    one.take(more)
    assert one.items_of("r2").pieces == [b"1", b"22", b"3"]
    assert bodies.used_bytes == book.kept_bytes == 4 + 3 * PIECE_OVERHEAD_BYTES
    with pytest.raises(GatewayError):
        one.items_of("r1")
    one.take(turn_of(book, "", b"4"))  # which failed
    assert one.items_of("r2").pieces == [b"1", b"22", b"3"]
    one.take(turn_of(book, "r3", b"5"))
    assert one.items_of("r3").pieces == [b"5"]
    one.take(turn_of(book, "r4", b"x" * (SOCKET_KEPT_BYTES_MAX + 1)))
    with pytest.raises(GatewayError):
        one.items_of("r4")
    one.forget()
    assert bodies.used_bytes == book.kept_bytes == 0


def test_what_is_kept_makes_room_for_bodies_the_oldest_first() -> None:
    bodies = BodyBudget(32 * MIB)
    book = SocketBook(bodies)
    kept = [Kept(account) for account in ("a", "b", "c")]
    for one in kept:
        book.keep(one, b"x" * (4 * MIB))
    assert [one.is_gone for one in kept] == [False] * 3
    assert bodies.take(22 * MIB)
    assert [one.is_gone for one in kept] == [True, False, False]
    assert not bodies.take(32 * MIB)  # nor is room made in vain for ever
    assert bodies.used_bytes == 22 * MIB + book.kept_bytes
    for one in kept:
        book.drop(one)
    assert (bodies.used_bytes, book.kept_bytes) == (22 * MIB, 0)


def test_an_account_keeps_as_much_as_remains_free_besides_it() -> None:
    bodies = BodyBudget(512 * MIB)
    book = SocketBook(bodies)
    size = 8 * MIB
    mine = [Kept("a") for _ in range(64)]
    for one in mine:
        book.keep(one, b"x" * size)
    stayed = sum(not one.is_gone for one in mine)
    assert 14 <= stayed <= 16  # of 256 MiB
    other = Kept("b")
    book.keep(other, b"x" * size)
    assert not other.is_gone
    assert bodies.used_bytes == book.kept_bytes


@cases("event", "response.incomplete", "response.completed")
async def test_items_that_no_event_ended_are_kept(event: str) -> None:
    book = SocketBook(BodyBudget(512 * MIB))
    turn = turn_of(book, "", b'"in"')

    def sent(**members: Any) -> bytes:
        return b"data: " + json.dumps(members).encode() + b"\n\n"

    turn.take(sent(type="response.created", response={"id": "r1"}))
    turn.take(sent(type="response.output_item.done", item={"n": 1}))
    turn.take(sent(type=event, response={"id": "r1", "output": [{"n": 1}, {"n": 2}]}))
    assert (turn.response_id, turn.is_complete) == ("r1", True)
    assert [json.loads(one) for one in turn.kept.pieces] == ["in", {"n": 1}, {"n": 2}]


@cases("event", "response.failed", "error")
async def test_response_that_failed_is_not_kept(event: str) -> None:
    book = SocketBook(BodyBudget(512 * MIB))
    turn = turn_of(book, "r1", b'"in"')
    turn.take(b"data: " + json.dumps({"type": event}).encode() + b"\n\n")
    assert (turn.response_id, turn.is_complete) == ("", True)


KEPT = [b'{"a":1},{"b": 2}', b'"c"']


@cases(
    "sent, items",
    ("Hi", [{"role": "user", "content": "Hi"}]),
    ([{"x": "]"}, 1], [{"x": "]"}, 1]),
    ([], []),
    (None, []),
)
@cases("kept", [], KEPT)
def test_a_body_has_the_items_of_the_response_that_it_continues(
    sent: Any, items: list[Any], kept: list[bytes]
) -> None:
    more = {"model": "m", "store": False, "stream": False, "previous_response_id": "r1"}
    message = json.dumps({"type": "response.create", "input": sent, **more}, indent=1).encode()
    read, body = read_create(message)
    assert (read.previous_response_id, read.generates) == ("r1", True)
    assert json.loads(b"[%b]" % body[read.start : read.end]) == items
    before = json.loads(b"[%b]" % b",".join(kept))
    assert json.loads(read.continued(body, kept)) == {
        "model": "m",
        "store": False,
        "input": [*before, *items],
        "stream": True,
    }


def test_a_message_without_input_or_generation() -> None:
    read, body = read_create(b'{"type": "response.create", "model": "m", "generate": false}')
    assert not read.generates
    assert json.loads(body) == {"model": "m", "input": [], "stream": True}


@cases(
    "message",
    b"[]",
    b"{",
    b'{"type": "session.update"}',
    b'{"type": "response.create", "input": 7}',
    b'{"type": "response.create", "input": {}}',
    b'{"type": "response.create", "stream_id": "s"}',
    b'{"type": "response.create", "generate": 1}',
    b'{"type": "response.create", "model": "a", "model": "b"}',
    b'{"type": "response.create", "input": "\xff"}',
)
def test_a_message_that_is_none_is_refused(message: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read_create(message)
