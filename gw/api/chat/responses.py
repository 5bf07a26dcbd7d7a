"""POST /v1/responses, and its WebSocket (reference 2.1)."""

from __future__ import annotations

from gw.api.chat.dialect_handler import DialectHandler
from gw.api.chat.socket import serve_socket


class ResponsesHandler(DialectHandler):
    """The responses protocol."""

    on_get = serve_socket
