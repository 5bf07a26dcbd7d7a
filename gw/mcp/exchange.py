"""One POST of the Model Context Protocol: from head and body to its reply.

Independent of HTTP and of the tools. A reply is one JSON value, or empty after notifications only.
Stateless, so any process serves any exchange.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from gw.mcp import envelope, json_rpc, methods
from gw.mcp.tools import Toolbox

# Messages of one batch; a message after this many bytes of responses must be sent separately.
BATCH_MAX: Final = 25
BATCH_BYTES_MAX: Final = 4 * 1024 * 1024

Outcome = Literal["ok", "tool_error", "error", "refused"]


class Reply(NamedTuple):
    """The reply; an empty body with 202."""

    http_status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HandledMessage:
    """The result of one message, for metrics; `code` is 0 without an error.

    `method` is empty if unknown to the protocol, `tool` if no known one was called.
    """

    method: str
    tool: str
    outcome: Outcome
    seconds: float
    code: int


class Exchange:
    """One POST of a client.

    `request` is the request being served, if any; `served` are the results of earlier ones.
    """

    def __init__(self, head: envelope.PostHead, toolbox: Toolbox) -> None:
        self.request: json_rpc.RpcRequest | None = None
        self.served: list[HandledMessage] = []
        self._head = head
        self._toolbox = toolbox
        self._began = time.perf_counter()

    async def reply(self, body: bytes) -> Reply:
        """Serve a body. Raises the errors of tools other than ToolError."""
        value: Any = None
        try:
            envelope.check_media_types(self._head)
            value = json_rpc.read_json(body)
            envelope.check_version(self._head.version)
            if isinstance(value, list):
                self._check_batch(value)
                return await self._batch(value)
            return await self._one(value)
        except json_rpc.RpcError as error:
            self._count("", "", "refused", error.code)
            return Reply(error.http_status, json_rpc.error_body(json_rpc.id_of(value), error))

    def failed(self, code: int) -> None:
        """Count the request being served as failed by a fault of the gateway."""
        if self.request is not None:
            self._count(self.request.method, self._tool_of(self.request), "error", code)

    def _check_batch(self, values: list[Any]) -> None:
        if self._head.version not in (None, *json_rpc.BATCHED):
            raise json_rpc.RpcError(
                json_rpc.INVALID_REQUEST, "This protocol version has no batches."
            )
        if not 0 < len(values) <= BATCH_MAX:
            raise json_rpc.RpcError(
                json_rpc.INVALID_REQUEST, f"A batch has 1 to {BATCH_MAX} messages."
            )
        if any(isinstance(one, dict) and one.get("method") == "initialize" for one in values):
            raise json_rpc.RpcError(
                json_rpc.INVALID_REQUEST, "`initialize` must not be part of a batch."
            )

    async def _batch(self, values: list[Any]) -> Reply:
        bodies: list[bytes] = []
        size_bytes = 0
        for value in values:
            self._began = time.perf_counter()
            try:
                if size_bytes > BATCH_BYTES_MAX:
                    message = "The responses before this one are long enough: send it alone."
                    raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, message)
                body = (await self._one(value)).body
            except json_rpc.RpcError as error:
                self._count("", "", "refused", error.code)
                body = json_rpc.error_body(json_rpc.id_of(value), error)
            if body:
                bodies.append(body)
                size_bytes += len(body)
        return Reply(200, b"[" + b",".join(bodies) + b"]") if bodies else Reply(202, b"")

    async def _one(self, value: Any) -> Reply:
        """Serve one message. Raises RpcError for invalid ones."""
        message = json_rpc.read_message(value)
        if isinstance(message, json_rpc.RpcRequest):
            return await self._serve(message)
        self._count(
            message.method if isinstance(message, json_rpc.RpcNotification) else "", "", "ok", 0
        )
        return Reply(202, b"")

    async def _serve(self, request: json_rpc.RpcRequest) -> Reply:
        outcome: Outcome = "refused"
        tool = ""
        try:
            stateless = envelope.is_stateless(self._head, request)
            if stateless:
                envelope.check_envelope(self._head, request)
            method = (methods.STATELESS_METHODS if stateless else methods.HANDSHAKE_METHODS).get(
                request.method
            )
            if method is None:
                status = 404 if stateless else 200
                raise json_rpc.RpcError(
                    json_rpc.METHOD_NOT_FOUND, "There is no such method.", http_status=status
                )
            self.request, outcome, tool = request, "error", self._tool_of(request)
            try:
                params = {} if request.params is None else methods.members(request.params, "params")
                result = await method(self._toolbox, params)
            except json_rpc.RpcError as error:
                error.http_status = error.http_status if stateless else 200
                raise
        except json_rpc.RpcError as error:
            self.request = None
            self._count(request.method, tool, outcome, error.code)
            return Reply(error.http_status, json_rpc.error_body(request.id, error))
        self.request = None
        outcome = "tool_error" if result.get("isError") else "ok"
        self._count(request.method, tool, outcome, 0)
        return Reply(
            200,
            json_rpc.result_body(request.id, methods.of_stateless(result) if stateless else result),
        )

    def _tool_of(self, request: json_rpc.RpcRequest) -> str:
        """Return the tool of a request; empty if it calls no known one."""
        if request.method != "tools/call" or not isinstance(request.params, dict):
            return ""
        name = request.params.get("name")
        return name if isinstance(name, str) and name in self._toolbox.tools else ""

    def _count(self, method: str, tool: str, outcome: Outcome, code: int) -> None:
        seconds = time.perf_counter() - self._began
        known = method if method in methods.KNOWN else ""
        self.served.append(HandledMessage(known, tool, outcome, seconds, code))
