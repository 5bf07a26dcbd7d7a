"""A bearer token that expires, put to each request of a channel."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from channels.authorizers.refreshing import Refreshing
from channels.authorizers.specs import AzureSpec, GoogleSpec
from channels.errors import CredentialsUnavailable
from channels.http.interfaces import UpstreamRequest, UpstreamResponse, Wire

Spec = TypeVar("Spec", GoogleSpec, AzureSpec)


class TokenAuthorizer(ABC, Generic[Spec]):
    """The token of one channel, wherever its `spec` says that it comes from."""

    def __init__(
        self,
        spec: Spec,
        on_failure: Callable[[CredentialsUnavailable], None],
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec: Spec = spec
        self._now = now
        self._line: Refreshing[bytes] = Refreshing(on_failure, monotonic=monotonic)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._line}>"

    async def proof(self, request: UpstreamRequest, wire: Wire) -> bytes:
        """See Authorizer."""
        return await self._line.get(partial(self._load, request, wire))

    def may_mend(self, response: UpstreamResponse) -> bool:
        """See Authorizer: a token that was withdrawn is fetched anew."""
        return response.status == 401 and self._line.drop()

    async def _load(self, request: UpstreamRequest, wire: Wire) -> tuple[bytes, float]:
        token, seconds = await self.fetch(request, wire)
        if not token.isascii() or not token.isprintable() or " " in token:
            raise CredentialsUnavailable("a token that no header can have")
        return f"Authorization: Bearer {token}\r\n".encode(), seconds

    @abstractmethod
    async def fetch(self, request: UpstreamRequest, wire: Wire) -> tuple[str, float]:
        """A token, and how many seconds it is good for. Raises CredentialsUnavailable.

        `request` is one that waits for it: the token is fetched by the same proxy.
        """
