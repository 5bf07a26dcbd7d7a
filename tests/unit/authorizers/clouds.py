"""The simulator's clouds and a client, in one process."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from channels.errors import CredentialsUnavailable
from channels.http.client import HttpClient
from channels.http.interfaces import Authorizer, UpstreamRequest
from channels.registry import ObtainedSecrets
from loadtests.simulator.server import Simulator

CLAUDE = b'{"anthropic_version":"bedrock-2023-05-31","max_tokens":99,"messages":[%b]}'
TYPE = ("Content-Type", "application/json")


@dataclass
class Cloud:
    """A simulator whose clock is `ahead_seconds` ahead."""

    simulator: Simulator
    http: HttpClient
    notices: list[str] = field(default_factory=list)
    obtained: ObtainedSecrets = field(default_factory=ObtainedSecrets)

    def on_failure(self, failure: CredentialsUnavailable) -> None:
        self.notices.append(failure.detail)

    async def send(
        self,
        authorizer: Authorizer,
        path: str,
        body: bytes = b"",
        *headers: tuple[str, str],
        method: str = "POST",
    ) -> tuple[int, bytes]:
        """Status and body of one proved request."""
        url = self.simulator.base_url + path
        request = UpstreamRequest(
            method, url, (TYPE, *headers) if body else headers, body, authorizer=authorizer
        )
        response = await self.http.open(request)
        try:
            return response.status, await response.read(1_000_000)
        finally:
            response.close()


@asynccontextmanager
async def cloud(*, ahead_seconds: float = 0.0) -> AsyncIterator[Cloud]:
    """A running one."""
    async with Simulator(clock=lambda: time.time() + ahead_seconds) as simulator:
        http = HttpClient(connect_seconds=5)
        try:
            yield Cloud(simulator, http)
        finally:
            await http.close()
