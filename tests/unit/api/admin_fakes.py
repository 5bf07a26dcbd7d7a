"""The admin listener with its API, over a database that knows one token and a used key."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any, cast
from uuid import uuid4

from prometheus_client import CollectorRegistry

from actors.limits.limiter import Limiter
from actors.store.errors import StoreUnavailable
from gw.admin.tokens import Scope, Token
from gw.admin_services import ROUTES
from gw.api.admin.openapi import description
from gw.api.admin.server import AdminApi
from gw.api.admin.table import AdminServices, Route
from gw.config.addresses import ListenAddress
from gw.http.admin import READY, AdminServer, make_admin_application
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock
from tests.unit.config.reading import read
from tests.unit.http.client import Address


@dataclass
class AdminDatabase:
    """One token, unless it is revoked; every idempotency key was used for something else."""

    token: str | None = "adm_1"
    scope: Scope = "write"
    is_away: bool = False

    async def fetch_one(self, sql: str, params: Any = ()) -> Any:
        if self.is_away:
            raise StoreUnavailable("db.inner.example refused the connection")
        if "key" in params:
            return (b"another request", "{}")
        if self.token is None:
            return None
        token = Token(
            id=self.token,
            name="tests",
            scope=self.scope,
            created_at=datetime.now(UTC),
            created_by="command me",
            revoked_at=None,
        )
        return astuple(token)

    async def execute(self, sql: str, params: Any = ()) -> int:
        """Claim nothing: each key is taken."""
        return 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator["AdminDatabase"]:
        yield self


@dataclass
class AdminWorld:
    """The fakes of one test, and the API made of them."""

    routes: Sequence[Route] = ROUTES
    database: AdminDatabase = field(default_factory=AdminDatabase)
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Metrics = field(default_factory=lambda: Metrics(CollectorRegistry()))

    def __post_init__(self) -> None:
        self.limiter = Limiter(clock=self.clock)
        self.api = AdminApi(
            self.routes,
            cast(AdminServices, self),
            limiter=self.limiter,
            description=cache(partial(description, self.routes)),
            metrics=self.metrics,
        )

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Address]:
        """Serve on a free port until the block ends."""

        async def render(accept: str) -> tuple[bytes, str]:
            return b"", "text/plain"

        async def readiness() -> Mapping[str, str]:
            return {"status": READY}

        application = make_admin_application(
            read(""), render=render, readiness=readiness, new_id=uuid4, respond=self.api.respond
        )
        server = AdminServer(application, ListenAddress("127.0.0.1", 0))
        await server.start()
        try:
            yield Address(int(server.url.rpartition(":")[2]))
        finally:
            await server.close()
