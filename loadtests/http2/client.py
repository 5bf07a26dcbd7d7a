"""HTTP/2 towards one origin, with as little around the library as can be.

What is left out makes it cheaper than a client for the gateway could be: no deadlines, no proof
that a connection is still good, no stream held back for a slow reader, no GOAWAY.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Any, cast
from urllib.parse import urlsplit

from h2.config import H2Configuration  # type: ignore[import-not-found]
from h2.connection import H2Connection  # type: ignore[import-not-found]
from h2.events import (  # type: ignore[import-not-found]
    DataReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
)
from h2.settings import SettingCodes, Settings  # type: ignore[import-not-found]

from channels.http.connection import Http1Response, UpstreamConnection
from channels.http.interfaces import UpstreamRequest, Wire

# Large enough never to hold up what is measured.
WINDOW_BYTES = 2**24
# What a client checks of its own headers it has written itself.
CONFIG = H2Configuration(
    header_encoding=None, validate_outbound_headers=False, normalize_outbound_headers=False
)


class NeverHeld:
    """What a response knows of its stream, which is read to its end whatever comes."""

    is_held = False

    def resume(self) -> None:
        """Nothing was held back."""

    def abort(self) -> None:
        raise NotImplementedError


class Connection(asyncio.Protocol):
    """One connection and its streams."""

    def __init__(self) -> None:
        self.http2: Any = H2Connection(CONFIG)
        self.reserved = 0  # streams that are open or about to be
        self._streams: dict[int, Http1Response] = {}
        self._transport: Any = None
        self._is_write_due = False
        # How many streams it takes is known.
        self.ready = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.http2.local_settings = Settings(
            client=True, initial_values={SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES}
        )
        self.http2.initiate_connection()
        self.http2.increment_flow_control_window(WINDOW_BYTES)
        self.write_soon()

    def request(self, headers: list[tuple[bytes, bytes]], body: bytes) -> Http1Response:
        """Open a stream."""
        number = self.http2.get_next_available_stream_id()
        self.http2.send_headers(number, headers)
        self.http2.send_data(number, body, end_stream=True)
        self.write_soon()
        response = self._streams[number] = Http1Response(cast(UpstreamConnection, NeverHeld()))
        return response

    def write_soon(self) -> None:
        """Write in the next turn, together with what else there will be."""
        if not self._is_write_due:
            self._is_write_due = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._is_write_due = False
        self._transport.write(self.http2.data_to_send())

    def data_received(self, data: bytes) -> None:
        touched: dict[int, Http1Response] = {}
        ended: list[int] = []
        for event in self.http2.receive_data(data):
            if isinstance(event, DataReceived):
                response = touched[event.stream_id] = self._streams[event.stream_id]
                response.pieces.append(event.data)
                length = event.flow_controlled_length
                self.http2.acknowledge_received_data(length, event.stream_id)
            elif isinstance(event, ResponseReceived):
                response = touched[event.stream_id] = self._streams[event.stream_id]
                response.fields = dict(event.headers)
                response.status = int(response.fields[b":status"])
            elif isinstance(event, StreamEnded):
                ended.append(event.stream_id)
            elif isinstance(event, RemoteSettingsChanged) and not self.ready.done():
                self.ready.set_result(None)
        for response in touched.values():
            response.count()
            response.arrived()
        for number in ended:
            self.reserved -= 1
            self._streams.pop(number).ended()
        self.write_soon()


class Http2Wire(Wire):
    """As many connections as it takes with so many streams on each."""

    def __init__(self, *, tls: ssl.SSLContext, streams_max: int) -> None:
        self._tls = tls
        self._streams_max = streams_max
        self.dialed: list[tuple[Connection, asyncio.Task[None]]] = []

    async def open(self, request: UpstreamRequest) -> Http1Response:
        url = urlsplit(request.url)
        free = (one for one in self.dialed if one[0].reserved < self._streams_max)
        found = next(free, None)
        if found is None:
            made = Connection()
            found = (
                made,
                asyncio.ensure_future(self._dial(made, str(url.hostname), url.port or 443)),
            )
            self.dialed.append(found)
        connection, dial = found
        connection.reserved += 1
        await asyncio.shield(dial)
        headers = [(name.lower().encode(), value.encode()) for name, value in request.headers]
        pseudo = [
            (b":method", request.method.encode()),
            (b":scheme", b"https"),
            (b":authority", url.netloc.encode()),
            (b":path", url.path.encode()),
        ]
        response = connection.request(pseudo + headers, request.body)
        await response.opened()
        return response

    async def _dial(self, connection: Connection, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: connection, host, port, ssl=self._tls)
        await connection.ready
