"""A served application and a client that sends bytes as they are: no library mends them."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from channels.open_files import OpenFiles
from gw.api.application import GatewayApplication
from gw.config.addresses import ListenAddress
from gw.http.server import Server
from metrics.prometheus import Metrics
from tests.unit.api.fakes import KEY


@dataclass(frozen=True)
class Answer:
    """One HTTP answer as it came over the wire."""

    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    is_cut: bool = False  # it has no last chunk

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error code of the first shape."""
        return str(self.json()["error"]["code"])


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, *, has_body: bool = True) -> Answer:
        """Read one answer, sized or chunked."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin1")
        status_line, *lines = head[:-4].split("\r\n")
        pairs = [line.split(": ", 1) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        body, is_cut = b"", False
        if has_body and "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        elif has_body and headers.get("transfer-encoding") == "chunked":
            body, is_cut = await self._chunks()
        return Answer(int(status_line.split(" ")[1]), headers, body, is_cut)

    async def ended(self) -> bool:
        """Read what is left; True when that is nothing and the server has closed."""
        try:
            return await self.reader.read() == b""
        except ConnectionResetError:
            return True

    async def ask(self, head: str, body: bytes = b"") -> Answer:
        await self.send(head.replace("\n", "\r\n").encode("latin1") + body)
        return await self.answer(has_body=not head.startswith("HEAD"))

    def vanish(self) -> None:
        """Close without a word."""
        self.writer.transport.abort()

    async def _chunks(self) -> tuple[bytes, bool]:
        body = b""
        while line := await self.reader.readline():
            size = int(line, 16)
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
            if not size:
                return body, False
        return body, True


@dataclass(frozen=True)
class Address:
    port: int
    trust: ssl.SSLContext | None = None  # of a server that speaks TLS and is called `gateway`

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        name = None if self.trust is None else "gateway"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.trust, server_hostname=name
        )
        try:
            yield Client(reader, writer)
        finally:
            writer.close()

    async def ask(self, head: str, body: bytes = b"") -> Answer:
        """One request on its own connection."""
        async with self.client() as client:
            return await client.ask(head, body)


@asynccontextmanager
async def served(
    application: GatewayApplication,
    *,
    tls: ssl.SSLContext | None = None,
    trust: ssl.SSLContext | None = None,
) -> AsyncIterator[Address]:
    """Serve on a free port until the block ends, with `tls` to clients that `trust` it."""
    async with serving(application, tls=tls, trust=trust) as (_, address):
        yield address


@asynccontextmanager
async def serving(
    application: GatewayApplication,
    *,
    tls: ssl.SSLContext | None = None,
    trust: ssl.SSLContext | None = None,
    files: OpenFiles | None = None,
    connections_max: int | None = None,
) -> AsyncIterator[tuple[Server, Address]]:
    """The same, with the listener."""
    listener = Server(
        application,
        ListenAddress("127.0.0.1", 0),
        files=files or open_files(),
        connections_max=connections_max,
        tls=tls,
    )
    assert listener.url.startswith("http:" if tls is None else "https:")
    await listener.start()
    try:
        yield listener, Address(int(listener.url.rpartition(":")[2]), trust)
    finally:
        await listener.close()


def open_files() -> OpenFiles:
    """The account of this process, with metrics of its own."""
    return OpenFiles(Metrics().files)


def request(method: str, path: str, *headers: str, key: str | None = KEY) -> str:
    """A request head with the usual headers, and a key unless told otherwise."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    return "\n".join([*lines, *headers, "", ""])
