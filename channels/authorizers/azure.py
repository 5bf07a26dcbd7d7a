"""Tokens of Microsoft Entra ID (Azure AD) for an application, by its client credentials.

It is one documented request, sent by the gateway's own client, with the application's secret or
the token that a workload's platform keeps in a file (workload identity).
"""

from __future__ import annotations

import asyncio
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from channels.authorizers.bearer_token import TokenAuthorizer
from channels.authorizers.specs import AzureSpec
from channels.errors import CredentialsUnavailable, UpstreamError
from channels.files import read_regular
from channels.http.interfaces import UpstreamClient, UpstreamRequest

TOKEN_BYTES_MAX = 256 * 1024
_FORM = (
    ("Content-Type", "application/x-www-form-urlencoded"),
    ("Accept", "application/json"),
)
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


class _TokenBody(Struct):
    """The token endpoint's response, of either outcome. `expires_in` is in seconds."""

    access_token: str = ""
    expires_in: float = 0
    error: str = ""
    error_description: str = ""


class AzureAuthorizer(TokenAuthorizer[AzureSpec]):
    """The token of one channel."""

    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """See TokenAuthorizer."""
        form = await self._form()
        url = f"{self._spec.authority}/{quote(self._spec.tenant_id)}/oauth2/v2.0/token"
        asked = UpstreamRequest(
            "POST", url, _FORM, urlencode(form).encode("ascii"), request.transport
        )
        try:
            response = await http.open(asked)
            try:
                body = await response.read(TOKEN_BYTES_MAX)
            finally:
                response.close()
        except UpstreamError as error:
            raise CredentialsUnavailable(f"azure-ad: {error} {error.detail}") from error
        return _token(response.status, body)

    async def _form(self) -> dict[str, str]:
        spec = self._spec
        form = {
            "grant_type": "client_credentials",
            "client_id": spec.client_id,
            "scope": spec.scope,
        }
        if not spec.token_file:
            return {**form, "client_secret": spec.client_secret}
        try:  # the platform replaces it before it expires
            assertion = (await asyncio.to_thread(read_regular, spec.token_file)).decode("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsUnavailable(f"azure-ad: {error}") from error
        assertion = assertion.strip()
        self._obtained.add("assertion", assertion)
        return {**form, "client_assertion_type": _ASSERTION, "client_assertion": assertion}


def _token(status: int, body: bytes) -> tuple[str, float]:
    """Return the token of a response. Raises CredentialsUnavailable, with the response's reason."""
    try:
        reply = msgspec.json.decode(body, type=_TokenBody)
    except (msgspec.DecodeError, RecursionError) as error:
        raise CredentialsUnavailable(f"azure-ad: status {status}, no JSON") from error
    if status != 200 or not reply.access_token or not 0 < reply.expires_in < float("inf"):
        reason = f"{reply.error} {reply.error_description}".strip()
        raise CredentialsUnavailable(f"azure-ad: status {status} {reason}")
    return reply.access_token, reply.expires_in
