"""Tokens of Google's service accounts, with google-auth: the extra `google`.

The library blocks, so it runs in a thread. It supports key files of service accounts, workload
identity federation, and the defaults: $GOOGLE_APPLICATION_CREDENTIALS, the machine.
"""

from __future__ import annotations

import asyncio
from datetime import UTC
from functools import partial
from typing import Any

from channels.authorizers.bearer_token import TokenAuthorizer
from channels.authorizers.specs import GoogleSpec, google_info, google_secrets
from channels.errors import CredentialsUnavailable
from channels.files import read_regular
from channels.http.interfaces import UpstreamClient, UpstreamRequest
from channels.http.transport import Transport
from channels.registry import ObtainedSecrets

GOOGLE_EXTRA = "pip install 'model-gateway[google]'"
# The timeout of one request to Google's token servers; the library makes several at most.
REQUEST_SECONDS = 10.0
# The validity of a token without a known end.
UNKNOWN_SECONDS = 600.0


class GoogleAuthorizer(TokenAuthorizer[GoogleSpec]):
    """The token of one channel."""

    _credentials: Any = None  # the library's, created once

    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """See TokenAuthorizer."""
        return await asyncio.to_thread(self._fetched, request.transport)

    def _fetched(self, transport: Transport | None) -> tuple[str, float]:
        """Return token and validity. Blocks; run by one thread at a time."""
        try:
            from google.auth.transport.requests import Request
            from requests import Session
        except ImportError as error:
            raise CredentialsUnavailable(
                f"google-service-account needs google-auth: {GOOGLE_EXTRA}"
            ) from error
        try:
            if self._credentials is None:
                self._credentials = _credentials(self._spec, self._obtained)
            with Session() as session:
                ways = {"timeout": REQUEST_SECONDS, "proxies": _proxies(transport)}
                self._credentials.refresh(partial(Request(session), **ways))
        except Exception as error:  # any error of the library
            raise CredentialsUnavailable(f"google-service-account: {error}") from error
        ends = self._credentials.expiry  # UTC, without a zone
        seconds = UNKNOWN_SECONDS
        if ends is not None:
            seconds = ends.replace(tzinfo=UTC).timestamp() - self._now()
        return self._credentials.token, seconds


def _credentials(spec: GoogleSpec, obtained: ObtainedSecrets) -> Any:
    """Return the library's credentials. Raises its errors, OSError and ValueError."""
    import google.auth
    from google.auth import identity_pool
    from google.oauth2 import credentials, service_account

    scopes = [spec.scope]
    if not spec.info and not spec.file:
        return google.auth.default(scopes=scopes)[0]
    text: str | bytes = spec.info
    if not text:
        text = read_regular(spec.file)
    info = google_info(text)
    obtained.add("key file", *google_secrets(info))
    # Each type by name: a type of the library's could name a program to run.
    by_type: dict[str, Any] = {
        "service_account": service_account.Credentials.from_service_account_info,
        "external_account": identity_pool.Credentials.from_info,
        "authorized_user": credentials.Credentials.from_authorized_user_info,
    }
    return by_type[info["type"]](info, scopes=scopes)


def _proxies(transport: Transport | None) -> dict[str, str] | None:
    """Return the channel's proxy, as an argument of each request: a session's is overridden by the
    environment's."""
    if transport is None or transport.proxy is None:
        return None
    return dict.fromkeys(("http", "https"), transport.proxy.url)
