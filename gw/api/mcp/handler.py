"""`POST /mcp`: knowledge bases as tools of the Model Context Protocol (reference 8.5).

Free at any balance, outside the account's limits, without rows in the call log, like the REST
endpoints beside it. Refusals before the message is parsed have the first error shape; everything
else is JSON-RPC (`gw/mcp/exchange.py`).
"""

from __future__ import annotations

from gw.api.failures import explain
from gw.api.handler import ApiHandler
from gw.api.mcp.knowledge_tools import TOOL_METHODS, KnowledgeTools
from gw.api.mcp.tools import TOOLS
from gw.mcp.envelope import PostHead
from gw.mcp.exchange import Exchange, HandledMessage
from gw.mcp.json_rpc import INTERNAL_ERROR, RpcError, error_body
from metrics.logs import EventLog

assert TOOL_METHODS.keys() == TOOLS.keys()


_LOG = EventLog("gw.mcp")


class McpHandler(ApiHandler):
    """One POST of an MCP client."""

    _exchange: Exchange | None = None

    async def on_post(self) -> None:
        exchange = self._exchange = Exchange(self._fields(), self._tools())
        reply = await exchange.reply(self.request.body)
        self._count(exchange)
        self.set_status(reply.http_status)
        if reply.body:
            self.write(reply.body)
        else:
            self.clear_header("Content-Type")

    def _fields(self) -> PostHead:
        get = self.request.headers.get
        return PostHead(
            content_type=get("Content-Type"),
            accept=get("Accept"),
            version=get("Mcp-Protocol-Version"),
            method=get("Mcp-Method"),
            name=get("Mcp-Name"),
        )

    def _tools(self) -> KnowledgeTools:
        services = self.services
        return KnowledgeTools(
            services.wiki,
            self.principal,
            services.metrics.knowledge,
            base_url=self.base_url(),
            now=services.clock.now(),
        )

    def _count(self, exchange: Exchange) -> None:
        for served in exchange.served:
            self.services.metrics.mcp.served(
                method=served.method,
                tool=served.tool,
                outcome=served.outcome,
                seconds=served.seconds,
            )
            if served.code:
                self._tell_operator(served)

    def _tell_operator(self, served: HandledMessage) -> None:
        _LOG.info(
            "mcp.error",
            trace=self.call_id.hex,
            account=self.principal.account_id,
            key=self.principal.key_id,
            method=served.method,
            tool=served.tool,
            code=served.code,
        )

    def respond_error(self, error: BaseException) -> None:
        exchange = self._exchange
        if exchange is None:
            super().respond_error(error)
            self.services.metrics.mcp.refused()
            return
        failure = explain(error)
        exchange.failed(INTERNAL_ERROR)
        self._count(exchange)
        self.set_status(failure.http_status)
        for name, value in failure.headers.items():
            self.set_header(name, value)
        request_id = None if exchange.request is None else exchange.request.id
        body = error_body(request_id, RpcError(INTERNAL_ERROR, failure.message))
        self.set_header("Content-Length", len(body))
        self.write(body)
