"""A raw HTTP client for tests: it keeps what a polite one hides, such as how a connection ended."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import httptools

from loadtests.simulator.server import Simulator

KEY = "upstream-key"
PATHS = {
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages",
    "responses": "/v1/responses",
    "native": "/v1beta/models/model-a:generateContent",
    "images": "/v1/images/generations",
}


@dataclass
class Reply:
    """What came back. `end` is how the connection ended: it is still `open`, `eof` or `reset`."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    is_whole: bool = False
    end: str = "open"
    raw: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[tuple[str, Any]]:
        """The whole server-sent events: name and data, JSON data decoded."""
        found: list[tuple[str, Any]] = []
        *blocks, _ = self.body.replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            name, data = "", b""
            for line in block.split(b"\n"):
                kind, _, value = line.partition(b": ")
                if kind == b"event":
                    name = value.decode()
                elif kind == b"data":
                    data += value
            found.append((name, data.decode() if data == b"[DONE]" else json.loads(data)))
        return found

    @property
    def data(self) -> list[Any]:
        return [data for _, data in self.events]


class _Parser:
    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.reply.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.reply.status = self.parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        self.reply.body += body

    def on_message_complete(self) -> None:
        self.reply.is_whole = self.reply.status != 100


class Client:
    """One connection to a simulator; `async with Client(simulator) as client`."""

    def __init__(self, simulator: Simulator, *, port: int | None = None) -> None:
        self._address = simulator.host, port or simulator.port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Client:
        # a small buffer, so that back-pressure is felt soon
        self._reader, self._writer = await asyncio.open_connection(*self._address, limit=4096)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    async def leave(self) -> None:
        """Close the connection, whatever is under way."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except ConnectionError:
            return

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def read_some(self) -> bytes:
        return await self._reader.read(4096)

    async def reply(self) -> Reply:
        """Read until the answer is whole or the connection ended."""
        reply = Reply()
        parser = _Parser(reply)
        while not reply.is_whole:
            try:
                data = await self._reader.read(65536)
            except ConnectionResetError:
                reply.end = "reset"
                break
            if not data:
                reply.end = "eof"
                break
            reply.raw += data
            try:
                parser.parser.feed_data(data)
            except httptools.HttpParserError:
                continue
        return reply

    async def at_end(self) -> bool:
        """Whether the other side closes the connection (waits for it)."""
        try:
            return await self._reader.read(1) == b""
        except ConnectionResetError:
            return True


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    """A request's bytes; `x_api_key` names the header x-api-key."""
    lines = [f"{method} {path} HTTP/1.1", "Host: simulator", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def auth(protocol: str, key: str = KEY) -> dict[str, str]:
    """The headers a protocol wants."""
    if protocol == "messages":
        return {"x_api_key": key, "anthropic_version": "2023-06-01"}
    if protocol == "native":
        return {"x_goog_api_key": key}
    return {"authorization": f"Bearer {key}"}


def path_of(protocol: str, *, stream: bool) -> str:
    if protocol == "native" and stream:
        return "/v1beta/models/model-a:streamGenerateContent?alt=sse"
    return PATHS[protocol]


def body_of(protocol: str, text: str = "hello out there", *, stream: bool) -> dict[str, Any]:
    """The smallest request of a protocol that says `text`."""
    turn: dict[str, Any] = {"role": "user", "content": text}
    match protocol:
        case "native":
            return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
        case "responses":
            body: dict[str, Any] = {"model": "model-a", "input": [turn]}
        case "images":
            return {"model": "model-a", "prompt": text}
        case "messages":
            body = {"model": "model-a", "max_tokens": 1000, "messages": [turn]}
        case _:
            body = {"model": "model-a", "messages": [turn]}
    if stream:
        body["stream"] = True
    return body


def ask_bytes(
    protocol: str,
    *,
    stream: bool = False,
    text: str = "hello out there",
    key: str = KEY,
    sim: dict[str, Any] | None = None,
    **members: Any,
) -> bytes:
    """The bytes of a protocol's request, with more members, and a directive when given."""
    body = {**body_of(protocol, text, stream=stream), **members}
    if sim is not None:
        body["sim"] = sim
    path = path_of(protocol, stream=stream)
    return request("POST", path, json.dumps(body).encode(), **auth(protocol, key))


async def ask(
    simulator: Simulator, protocol: str, *, port: int | None = None, **options: Any
) -> Reply:
    """One request on a connection of its own; the options are those of `ask_bytes`."""
    async with Client(simulator, port=port) as client:
        client.send(ask_bytes(protocol, **options))
        return await client.reply()


async def call(
    simulator: Simulator, method: str, path: str, value: object = None, **headers: str
) -> Reply:
    """Any request on a connection of its own; bytes go out as they are, the rest as JSON."""
    body = (
        value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
    )
    async with Client(simulator) as client:
        client.send(request(method, path, body, **headers))
        return await client.reply()
