"""Tokens of Google's service accounts, with google-auth: the extra `google`.

The library blocks, so it runs in a thread. It knows key files of service accounts, workload
identity federation, and the application's defaults: $GOOGLE_APPLICATION_CREDENTIALS, the machine.
"""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial
from typing import Any

from channels.authorizers.specs import GoogleSpec, google_info
from channels.authorizers.tokens import TokenAuthorizer
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamRequest, Wire
from channels.http.transport import Transport

EXTRA = "pip install 'model-gateway[google]'"
# Of one request to Google's token servers; the library makes several at most.
REQUEST_SECONDS = 10.0
# What a token is good for whose end the library does not know.
UNKNOWN_SECONDS = 600.0


class GoogleAuthorizer(TokenAuthorizer[GoogleSpec]):
    """The token of one channel."""

    _credentials: Any = None  # the library's, which are made once

    async def fetch(self, request: UpstreamRequest, wire: Wire) -> tuple[str, float]:
        """See TokenAuthorizer."""
        return await asyncio.to_thread(self._fetched, request.transport)

    def _fetched(self, transport: Transport | None) -> tuple[str, float]:
        """Blocks; of one thread at a time."""
        try:
            from google.auth.transport.requests import Request
            from requests import Session
        except ImportError as error:
            raise CredentialsUnavailable(
                f"google-service-account needs google-auth: {EXTRA}"
            ) from error
        try:
            if self._credentials is None:
                self._credentials = _credentials(self._spec)
            with Session() as session:
                ways = {"timeout": REQUEST_SECONDS, "proxies": _proxies(transport)}
                self._credentials.refresh(partial(Request(session), **ways))
        except Exception as error:  # whatever the library meets on its way
            raise CredentialsUnavailable(f"google-service-account: {error}") from error
        ends = self._credentials.expiry  # UTC, and does not say so
        seconds = UNKNOWN_SECONDS
        if ends is not None:
            seconds = ends.replace(tzinfo=UTC).timestamp() - self._now()
        return self._credentials.token, seconds


def _credentials(spec: GoogleSpec) -> Any:
    """The library's credentials. Raises what it raises, OSError and ValueError."""
    import google.auth
    from google.auth import identity_pool
    from google.oauth2 import credentials, service_account

    scopes = [spec.scope]
    if not spec.info and not spec.file:
        return google.auth.default(scopes=scopes)[0]
    text: str | bytes = spec.info
    if not text:
        with open(spec.file, "rb") as file:
            text = file.read()
    info = google_info(text)
    # Each by its own name: any type at all could name a program to be run.
    by_type: dict[str, Any] = {
        "service_account": service_account.Credentials.from_service_account_info,
        "external_account": identity_pool.Credentials.from_info,
        "authorized_user": credentials.Credentials.from_authorized_user_info,
    }
    return by_type[info["type"]](info, scopes=scopes)


def _proxies(transport: Transport | None) -> dict[str, str] | None:
    """The channel's proxy, for each request: the environment's goes before a session's."""
    if transport is None or transport.proxy is None:
        return None
    return dict.fromkeys(("http", "https"), transport.proxy.url)
