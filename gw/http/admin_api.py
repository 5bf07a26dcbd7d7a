"""`/admin/v1/…` on the admin listener: reads bounded requests and passes them on.

Independent of tokens and routes. The response is made by the API itself (`gw/api/admin/`) or, in
the parent of several processes, by one of these (`gw/processes/`).
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tornado.web import RequestHandler, stream_request_body

from gw.error_bodies import dumps

PREFIX = "/admin/v1/"
# A system prompt of 64 KiB, each character escaped, and the other members.
BODY_BYTES_MAX = 512 * 1024
# A longer body is read to its end and dropped, up to this length: a client that still sends would
# not read the response. Beyond it the connection is closed with the response.
IGNORED_BYTES_MAX = 16 * 1024 * 1024
# In which a parent forwards the client's address, with the proof that it is the parent.
PEER_HEADER = "X-Gateway-Admin-Peer"
PROOF_VARIABLE = "GW_ADMIN_PEER_PROOF"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest:
    """A request. `path` is below the prefix, still encoded; `address` is the client's."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    address: str
    trace: str


@dataclass(frozen=True, slots=True)
class AdminResponse:
    """A response in JSON."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[AdminRequest], Awaitable[AdminResponse]]


def error_body(code: str, message: str, trace: str) -> bytes:
    """Return the body of an error, which has one shape."""
    return dumps({"error": {"code": code, "message": message, "trace_id": trace}})


@stream_request_body
class AdminApiMixin(RequestHandler):
    """Reads a body within its bound and passes the request on."""

    def prepare(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        length = self.request.headers.get("Content-Length", "0")
        if length.isdigit() and int(length[:20]) > IGNORED_BYTES_MAX:
            self.set_header("Connection", "close")
            self._refuse_body()

    def data_received(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size <= BODY_BYTES_MAX:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    async def respond(self, decoded_path: str) -> None:
        """Pass on a request of any method; the API knows the methods of its paths."""
        if self._size > BODY_BYTES_MAX:
            self._refuse_body()
            return
        response = await self.passed_on(
            AdminRequest(
                method=self.request.method or "",
                path=self.request.path.removeprefix(PREFIX),
                query=self.request.query,
                headers=self.request.headers,
                body=b"".join(self._chunks),
                address=self._address(),
                trace=self._trace(),
            )
        )
        self.set_status(response.status)
        for name, value in response.headers.items():
            self.set_header(name, value)
        self.finish(response.body)

    async def passed_on(self, request: AdminRequest) -> AdminResponse:
        """Return the response of the API."""
        respond: Respond = self.settings["respond"]
        return await respond(request)

    # HEAD is Tornado's 405: no path has it, and a parent would wait for the worker's body.
    get = post = put = patch = delete = options = respond

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        code = "method_not_allowed" if status_code == 405 else "internal_error"
        self.finish(error_body(code, self._reason, self._trace()))

    def _refuse_body(self) -> None:
        self.set_status(413)
        message = f"The body has more than {BODY_BYTES_MAX} bytes."
        self.finish(error_body("request_too_large", message, self._trace()))

    def _trace(self) -> str:
        return self._headers["x-gateway-trace"]

    def _address(self) -> str:
        """Return the client's address, from the parent if it forwards the request."""
        proof, _, address = self.request.headers.get(PEER_HEADER, "").partition(" ")
        expected: str = self.settings["peer_proof"]
        if expected and address and hmac.compare_digest(proof.encode(), expected.encode()):
            return address
        return self.request.remote_ip or ""
