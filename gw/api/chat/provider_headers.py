"""The headers of a client for the provider of its protocol.

They go to channels of that protocol, whichever they are, so that a feature that is new there
works at once. Left out is what the provider knows its clients by, since a channel is another one,
and what concerns the client's own connection.
"""

from __future__ import annotations

from channels.credentials import Pairs
from channels.dialects.dialect import ChatDialect
from gw.errors import INVALID_REQUEST, GatewayError
from gw.http.tornado.headers import RequestHeaders, spelled
from metrics.log_redaction import redact

PROVIDER_HEADERS_MAX = 16
PROVIDER_NAME_CHARACTERS_MAX = 64
PROVIDER_VALUE_CHARACTERS_MAX = 2048
PROVIDER_CHARACTERS_MAX = 8 * 1024  # of all of them together
# A header whose name contains one of these words between hyphens is left out.
_CLIENTS_OWN = frozenset(
    {
        *("key", "token", "auth", "authorization", "secret", "cookie", "credential", "credentials"),
        *("organization", "project", "workspace", "account", "user", "version", "browser"),
    }
)


def provider_headers(headers: RequestHeaders, dialect: ChatDialect) -> Pairs:
    """Return the client's headers for channels of its own protocol. Raises GatewayError."""
    prefix = spelled(dialect.header_prefix)
    names = [name for name in headers if prefix and name.startswith(prefix)]
    if not names:
        return ()
    hop = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    pairs = [
        (name.lower(), _provider_value(name.lower(), headers.get(name, "").strip()))
        for name in names
        if name.lower() not in hop and _CLIENTS_OWN.isdisjoint(name.lower().split("-"))
    ]
    found = tuple(pair for pair in pairs if pair[1])
    _check_bounds(found, dialect.header_prefix)
    return found


def _check_bounds(found: Pairs, prefix: str) -> None:
    if (
        len(found) > PROVIDER_HEADERS_MAX
        or any(len(name) > PROVIDER_NAME_CHARACTERS_MAX for name, _ in found)
        or sum(len(name) + len(value) for name, value in found) > PROVIDER_CHARACTERS_MAX
    ):
        raise GatewayError(
            INVALID_REQUEST,
            f"At most {PROVIDER_HEADERS_MAX} headers {prefix}* are passed on, with "
            f"names of {PROVIDER_NAME_CHARACTERS_MAX} characters and "
            f"{PROVIDER_CHARACTERS_MAX} characters together.",
        )


def _provider_value(name: str, value: str) -> str:
    """Return a value to forward; empty if it contains a key of the gateway. Raises GatewayError."""
    is_text = value.isascii() and value.isprintable()
    if not is_text or len(value) > PROVIDER_VALUE_CHARACTERS_MAX:
        shown = name[:PROVIDER_NAME_CHARACTERS_MAX]
        raise GatewayError(
            INVALID_REQUEST,
            f"{shown}: expected ASCII text, {PROVIDER_VALUE_CHARACTERS_MAX} characters at most.",
            param=shown,
        )
    return value if redact(value) == value else ""
