"""The revisions of the protocol that are served, and the words and numbers of its wire.

Those with a handshake begin with `initialize`; the newest one has none: each request says its
revision and what the client can do in `_meta`, and repeats of it in headers what a proxy may read.
"""

from __future__ import annotations

from typing import Any, Final

from metrics.version import release

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS: Final = "2026-07-28"
# All of them, the newest first.
SUPPORTED: Final = (STATELESS, *reversed(HANDSHAKE))
# Those that know batches.
BATCHED: Final = HANDSHAKE[:2]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"

CAPABILITIES: Final[dict[str, Any]] = {"tools": {}}
SERVER_INFO: Final = {"name": "gateway-knowledge-base", "version": release()}
# How long a client may keep what only another release of the gateway changes.
CACHE_MS: Final = 300_000
