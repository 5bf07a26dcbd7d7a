"""The envelope of a message: the head of its POST, and the `_meta` of the newest revision."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any

from gw.mcp import json_rpc
from metrics.log_redaction import redact

SHOWN_CHARACTERS_MAX = 60
_JSON = "application/json"
_WEIGHT_0 = re.compile(r"q=0(?:\.0{0,3})?", re.IGNORECASE)
_ENCODED = re.compile(r"=\?base64\?(.*)\?=")


@dataclass(frozen=True, slots=True, kw_only=True)
class PostHead:
    """The header fields used by the protocol; None if absent."""

    content_type: str | None = None
    accept: str | None = None
    version: str | None = None
    method: str | None = None
    name: str | None = None


def check_media_types(head: PostHead) -> None:
    """Check that the body is JSON, and that the client accepts JSON. Raises RpcError."""
    if _media_type(head.content_type or "") != _JSON:
        message = "Send the message as `Content-Type: application/json`."
        raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, message, http_status=415)
    if not _accepts_json(head.accept or ""):
        message = "Responses are JSON: accept `application/json`."
        raise json_rpc.RpcError(json_rpc.INVALID_REQUEST, message, http_status=406)


def check_version(version: str | None) -> None:
    """Check that the revision is supported or absent. Raises RpcError."""
    if version is not None and version not in json_rpc.SUPPORTED:
        data = {
            "supported": json_rpc.SUPPORTED,
            "requested": redact(version)[:SHOWN_CHARACTERS_MAX],
        }
        raise json_rpc.RpcError(
            json_rpc.UNSUPPORTED_VERSION, "This protocol version is not served.", data=data
        )


def is_stateless(head: PostHead, request: json_rpc.RpcRequest) -> bool:
    """Whether the request has the revision without a handshake. Raises RpcError.

    A version in `_meta` counts only as a text: in older revisions `_meta` may contain anything.
    """
    version = meta_of(request).get(json_rpc.META_VERSION)
    if head.version != json_rpc.STATELESS and isinstance(version, str):
        check_version(version)
    return json_rpc.STATELESS in (head.version, version)


def check_envelope(head: PostHead, request: json_rpc.RpcRequest) -> None:
    """Check that a request of the newest revision is complete and consistent. Raises RpcError."""
    meta = meta_of(request)
    if json_rpc.META_VERSION not in meta or not isinstance(
        meta.get(json_rpc.META_CAPABILITIES), dict
    ):
        message = (
            f"`params._meta` must have `{json_rpc.META_VERSION}`"
            f" and `{json_rpc.META_CAPABILITIES}`."
        )
        raise json_rpc.RpcError(json_rpc.INVALID_PARAMS, message)
    _check_header("MCP-Protocol-Version", head.version, meta[json_rpc.META_VERSION])
    _check_header("Mcp-Method", head.method, request.method)
    name = request.params.get("name")
    if request.method == "tools/call" and isinstance(name, str):
        _check_header("Mcp-Name", _decoded(head.name), name)


def meta_of(request: json_rpc.RpcRequest) -> dict[str, Any]:
    """Return the `_meta` of a request; empty if absent."""
    meta = request.params.get("_meta") if isinstance(request.params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _check_header(name: str, value: str | None, expected: Any) -> None:
    if value is None or value != expected:
        what = "is missing" if value is None else "differs from the message"
        raise json_rpc.RpcError(json_rpc.HEADER_MISMATCH, f"The header `{name}` {what}.")


def _decoded(value: str | None) -> str | None:
    """Return a header's text, which may be encoded; None if the encoding is invalid."""
    encoded = _ENCODED.fullmatch(value or "")
    if encoded is None:
        return value
    try:
        return base64.b64decode(encoded[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _accepts_json(accept: str) -> bool:
    if not accept.strip():
        return True
    ranges = (_JSON, "application/*", "*/*")
    return any(
        _media_type(one) in ranges
        and not any(_WEIGHT_0.fullmatch(part.strip()) for part in one.split(";")[1:])
        for one in accept.split(",")
    )
