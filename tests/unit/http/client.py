"""A served application and a client that sends bytes as they are: no library mends them."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from channels.open_files import OpenFiles
from gw.api.application import GatewayApplication
from gw.config.addresses import ListenAddress
from gw.http.server import Server
from loadtests.rig.async_connection import AsyncConnection
from loadtests.rig.response import Response
from metrics.families import Families
from metrics.groups.files import FileMetrics
from tests.unit.api.fakes import KEY


class Client(AsyncConnection):
    """One connection, which sends heads as tests write them."""

    async def send_head(self, head: str, body: bytes = b"") -> None:
        await self.send(head.replace("\n", "\r\n").encode("latin1") + body)

    async def request(self, head: str, body: bytes = b"") -> Response:
        await self.send_head(head, body)
        return await self.response(has_body=not head.startswith("HEAD"))


@dataclass(frozen=True)
class Address:
    port: int
    trust: ssl.SSLContext | None = None  # of a server that speaks TLS and is called `gateway`

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        name = None if self.trust is None else "gateway"
        client = await Client.open("127.0.0.1", self.port, trust=self.trust, server_name=name)
        try:
            yield client
        finally:
            client.writer.close()

    async def request(self, head: str, body: bytes = b"") -> Response:
        """One request on its own connection."""
        async with self.client() as client:
            return await client.request(head, body)


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
    return OpenFiles(FileMetrics(Families()))


def request(method: str, path: str, *headers: str, key: str | None = KEY) -> str:
    """A request head with the usual headers, and a key unless told otherwise."""
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    return "\n".join([*lines, *headers, "", ""])
