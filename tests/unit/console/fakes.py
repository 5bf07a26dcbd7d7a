"""The console's own server over a database that knows sessions and nothing else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

from prometheus_client import CollectorRegistry

from gw.config.addresses import ListenAddress
from gw.config.config import Config
from gw.console import sessions
from gw.console.application import make_application
from gw.console.figures import Figures
from gw.console.page import Page
from gw.console.pages import COOKIE, ConsoleServices
from gw.http.admin import AdminServer
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.unit.config.reading import read
from tests.unit.http.client import Address

OPERATOR, OWNER = "an-operator", "an-owner-of-acct-1"
ACCOUNTS = {OWNER: "acct_1"}  # every other session is an operator's


@dataclass
class Database:
    """Sessions by their token; nothing else may be asked, because every request is refused."""

    tokens: set[str] = field(default_factory=lambda: {OPERATOR, OWNER})
    may_respond: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: int = 0

    def __post_init__(self) -> None:
        self.may_respond.set()

    async def fetch_one(self, sql: str, params: Any = ()) -> Any:
        assert sql == sessions.SQL["find_session"], sql
        self.waiting += 1
        await self.may_respond.wait()
        self.waiting -= 1
        for token in self.tokens:
            if sessions.digest(token) == params["digest"]:
                account = ACCOUNTS.get(token)
                name, seen_at = account and "One", datetime.max.replace(tzinfo=UTC)
                return (f"sess_{token}", account, name, "somebody", "192.0.2.1", seen_at)
        return None


@dataclass
class World:
    """The fakes of one test."""

    database: Database = field(default_factory=Database)
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Metrics = field(default_factory=lambda: Metrics(CollectorRegistry()))
    config: Config = field(default_factory=lambda: read("console_listen: 127.0.0.1:0"))
    figures: Figures | None = None

    @asynccontextmanager
    async def served(
        self, pages: Sequence[Page], *, connections_max: int = 10
    ) -> AsyncIterator[Address]:
        """Serve these pages on a free port until the block ends."""
        nothing = cast(Any, None)
        services = ConsoleServices(
            current=cast(Any, self),
            database=cast(Any, self.database),
            settled=nothing,
            channels=nothing,
            metrics=self.metrics,
            http=nothing,
            secret=nothing,
            end_users=nothing,
            clock=self.clock,
            new_id=uuid4,
            cursors=nothing,
            figures=cast(Any, self.figures),
            gateway_url=str,
        )
        application = make_application(services, nothing, pages)
        server = AdminServer(
            application, ListenAddress("127.0.0.1", 0), connections_max=connections_max
        )
        await server.start()
        try:
            yield Address(int(server.url.rpartition(":")[2]))
        finally:
            await server.close()


def cookie(token: str) -> str:
    """The header of a session."""
    return f"Cookie: {COOKIE}={token}"
