"""A path on Tornado's own server: its row, and what stands before its handler.

The admin listener and the console have such paths; the public listener's are endpoints
(`gw/api/endpoint.py`). A body is read within the row's bound before anything is refused: earlier, a
client that sends would see a reset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.web import HTTPError, RequestHandler, stream_request_body

from gw.http.rows import checked_table, refuse_faults
from gw.http.tornado.handler import methods_of

# A longer body than the row's is read to its end and dropped, up to this length: a client that
# still sends would not read the response. Beyond it the connection is closed with the response.
IGNORED_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True)
class ServedPath:
    """One path. Raises MisstatedRow where the row and its handler do not fit.

    `path` is a regular expression, whose groups are passed to the handler's `on_<method>`;
    `methods` stand in Tornado's order. `body_bytes_max`: 0 where a body is dropped.
    """

    path: str
    handler: type[PathHandler]
    methods: tuple[str, ...] = ("GET",)
    _: KW_ONLY
    body_bytes_max: int = 0
    any_host: bool = False  # also under names that a stranger's page may have (DNS rebinding)

    def __post_init__(self) -> None:
        refuse_faults(f"path {self.path}", self.faults())

    def faults(self) -> Mapping[str, bool]:
        """Return what may be wrong with the row, and whether it is."""
        has, name = methods_of(self.handler), self.handler.__name__
        return {
            f"its row states {self.methods}, {name} has {has}": has != self.methods,
            "only a POST has a body": self.body_bytes_max > 0 and "POST" not in self.methods,
        }


def rules_of(paths: Sequence[ServedPath]) -> list[tuple[str, type[Any], dict[str, Any]]]:
    """Return the rules of the paths, for Tornado's application. Raises MisstatedRow."""
    checked_table(paths, ServedPath, lambda one: (one.path,))
    return [(one.path, one.handler, {"row": one}) for one in paths]


class PathRefused(HTTPError):
    """A request that its path does not take, with headers of the response."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status)
        self.headers = headers or {}


@stream_request_body
class PathHandler(RequestHandler):
    """One request to a path: a handler is a subclass with `on_get`, `on_post`, …"""

    row: ServedPath

    def initialize(self, row: ServedPath) -> None:
        self.row = row
        self._body = bytearray()  # of one piece, however small those are that came
        self._size = 0

    def is_known_host(self) -> bool:
        """Whether the listener is called by the request's `Host`."""
        raise NotImplementedError

    def refused_method(self) -> PathRefused:
        """Return the error for a method that the path lacks."""
        return PathRefused(405, {"Allow": ", ".join(self.row.methods)})

    async def identify(self) -> None:
        """Find out whose request it is, as its error page shows it."""

    async def check(self) -> None:
        """Check what the listener asks besides its row's members. Raises on refusal."""

    def respond_error(self, status: int, error: BaseException | None) -> None:
        """Write the response of an error; its status and its headers are set."""
        raise NotImplementedError

    @property
    def body(self) -> bytes:
        """The body, within the row's bound."""
        return bytes(self._body)

    # Called by Tornado

    def prepare(self) -> None:
        length = self.request.headers.get("Content-Length", "0")
        is_length = length.isascii() and length.isdigit()  # others are Tornado's to refuse
        if self.row.body_bytes_max and is_length and int(length[:20]) > IGNORED_BYTES_MAX:
            raise PathRefused(413, {"Connection": "close"})

    def data_received(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= self.row.body_bytes_max:
            self._body += chunk
        else:
            self._body = bytearray()

    async def _serve(self, *parts: str) -> None:
        """Check a request, which is complete, by its row, and let the handler respond to it."""
        row, method = self.row, self.request.method or ""
        if (stream := self._kept_stream()) is not None:
            self.settings["server"].begin(stream)
        if not (row.any_host or self.is_known_host()):
            raise PathRefused(421)
        await self.identify()
        if method not in row.methods:
            raise self.refused_method()
        if 0 < row.body_bytes_max < self._size:
            raise PathRefused(413)
        await self.check()
        await getattr(self, f"on_{method.lower()}")(*parts)

    get = head = post = put = patch = delete = options = _serve

    def on_finish(self) -> None:
        if (stream := self._kept_stream()) is not None:
            self.settings["server"].end(stream)

    def _kept_stream(self) -> Any:
        """Return the connection, which the server keeps until it has its response."""
        is_kept = "server" in self.settings
        connection = self.request.connection
        return connection.stream if is_kept and isinstance(connection, HTTP1Connection) else None

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, PathRefused):
            for name, value in error.headers.items():
                self.set_header(name, value)
        self.respond_error(status_code, error)

    def compute_etag(self) -> None:
        """No ETags: every response is made for its request."""
