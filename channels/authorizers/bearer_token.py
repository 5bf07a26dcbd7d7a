"""A bearer token that expires, added to each request of a channel."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from channels.authorizers.refreshing import Refreshing
from channels.authorizers.specs import AzureSpec, GoogleSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.registry import ObtainedSecrets

Spec = TypeVar("Spec", GoogleSpec, AzureSpec)


class TokenAuthorizer(ABC, Generic[Spec]):
    """The token of one channel, from the source of its `spec`."""

    def __init__(
        self,
        spec: Spec,
        on_failure: Callable[[CredentialsUnavailable], None],
        obtained: ObtainedSecrets,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec: Spec = spec
        self._obtained = obtained
        self._now = now
        self._line: Refreshing[bytes] = Refreshing(on_failure, monotonic=monotonic)

    async def proof(self, request: UpstreamRequest, http: UpstreamClient) -> bytes:
        """See Authorizer."""
        return await self._line.get(partial(self._load, request, http))

    def may_mend(self, response: UpstreamResponse) -> bool:
        """See Authorizer: discards a revoked token."""
        return response.status == 401 and self._line.drop()

    async def _load(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[bytes, float]:
        token, seconds = await self.fetch(request, http)
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CredentialsUnavailable("a token that no header can have")
        self._obtained.add("token", token)
        return f"Authorization: Bearer {token}\r\n".encode(), seconds

    @abstractmethod
    async def fetch(self, request: UpstreamRequest, http: UpstreamClient) -> tuple[str, float]:
        """Return a token, and its validity in seconds. Raises CredentialsUnavailable.

        `request`: one that waits for the token, which is fetched by the same proxy.
        """
