"""Everything that handlers ask from outside, in memory, with the events that tests wait for."""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from actors.limits.accounts import AccountLimits
from actors.limits.limiter import Limiter
from actors.store.errors import StoreUnavailable
from actors.wallet.claims import Claim, ClaimState
from actors.wallet.ledger import Spending
from channels.body_budget import BODIES_BYTES, BodyBudget
from channels.registry import Registry
from gw.api.application import GatewayApplication
from gw.api.endpoint import Endpoint
from gw.api.logs.cursor import CursorSeal
from gw.api.logs.summary_cache import SummaryCache
from gw.api.refusals import RefusedCall
from gw.api.services import LogServices, Services
from gw.app import make_application
from gw.calls.attribution import EndUsers
from gw.config.config import Timeouts
from gw.http.drain import RequestsInFlight
from gw.http.overload import Overload
from gw.idempotency.guard import IdempotencyGuard
from gw.idempotency.store import StoredResponse
from gw.keys.end_users import EndUserKey
from gw.keys.principal import KeyRefused, Principal
from metrics.families import Families
from metrics.groups.mcp import McpMetrics
from metrics.sampling import Sampling
from metrics.tracing import Tracing
from tests.support.clock import FakeClock

KEY = "sk-platform-" + "a" * 64
MAX_BODY_BYTES = 200_000


def make_principal(**changes: Any) -> Principal:
    values: dict[str, Any] = {
        "key_id": "key_1",
        "account_id": "acct_1",
        "key_name": "test",
        "key_prefix": "sk-platform-aaaa",
        "kind": "console",
        "agent_id": None,
        "allowed_models": None,
        "expires_at": None,
        "account_logs": False,
        "spend_cap_nano_usd": None,
        "rpm_limit": None,
        "concurrency_limit": None,
    }
    return Principal(**{**values, **changes})


class FakeKeys:
    """Keys by their text: whose each is, or why it is refused."""

    def __init__(self) -> None:
        self.known: dict[str, Principal | Exception] = {KEY: make_principal()}
        self.uses: list[tuple[str, bool]] = []
        self.remembers = True  # what it knows needs no waiting

    lookup_hash = staticmethod(str)

    def authenticate(
        self, key_hash: str, key_text: str, *, touch: bool = True
    ) -> Principal | Coroutine[Any, Any, Principal]:
        found = self.known.get(key_text)
        if not self.remembers or found is None:
            return self.read(key_text, touch)
        self.uses.append((key_text, touch))
        if isinstance(found, Exception):
            raise found
        return found

    async def read(self, key_text: str, touch: bool) -> Principal:
        self.uses.append((key_text, touch))
        found = self.known.get(key_text) or KeyRefused("unknown")
        if isinstance(found, Exception):
            raise found
        return found


class FakeMoney:
    """One account's money; `lag` holds `settled` back."""

    def __init__(self) -> None:
        self.available_nano_usd = 10**9
        self.figures = Spending(
            balance_nano_usd=5 * 10**9, held_nano_usd=0, key_spent_nano_usd=0, key_held_nano_usd=0
        )
        self.after_lag: Spending | None = None
        self.lag: asyncio.Event | None = None
        self.is_down = False
        self.remembers = False  # a balance seen before is good enough to go on with
        self.requested: list[str] = []

    def available(self, account_id: str) -> int | Coroutine[Any, Any, int]:
        if self.remembers and self.available_nano_usd > 0:
            return self.available_nano_usd
        return self._read()

    async def _read(self) -> int:
        self.requested.append("available")
        if self.is_down:
            raise StoreUnavailable("down")
        return self.available_nano_usd

    async def settled(self, account_id: str) -> None:
        self.requested.append("settled")
        if self.lag is not None:
            await self.lag.wait()
            if self.after_lag is not None:
                self.figures = self.after_lag

    async def spending(self, key_id: str, account_id: str) -> Spending:
        self.requested.append("spending")
        if self.is_down:
            raise StoreUnavailable("connection to postgresql://inside refused")
        return self.figures


class FakeStoredResponses:
    """What is remembered under idempotency keys, by account and key."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], StoredResponse] = {}
        self.known: set[tuple[str, str]] = set()
        self.reused: set[tuple[str, str]] = set()  # of other requests

    async def find(self, account_id: str, claim: Claim) -> StoredResponse | None:
        return self.kept.get((account_id, claim.key))

    async def state(self, account_id: str, claim: Claim) -> ClaimState | None:
        if (account_id, claim.key) in self.reused:
            return "reuse"
        return "stored" if (account_id, claim.key) in self.kept else None

    async def is_known(self, account_id: str, key: str) -> bool:
        return (account_id, key) in self.known


class FakeMetrics:
    """Remembers what the web rooms report."""

    def __init__(self) -> None:
        self.responses: list[tuple[str, int]] = []
        self.limits_refused: list[str] = []
        self.standings: list[str] = []
        self.shed: Counter[str] = Counter()  # by route
        self.failures: Counter[str] = Counter()  # the same
        self.mcp = McpMetrics(Families())

    def call_shed(self, route: str) -> None:
        self.shed[route] += 1

    def http_response(self, *, route: str, status: int) -> None:
        self.responses.append((route, status))

    def routes_served(self, routes: Iterable[str]) -> None:
        self.failures.update(dict.fromkeys(routes, 0))

    def http_failure(self, *, route: str) -> None:
        self.failures[route] += 1

    def idempotency(self, standing: str) -> None:
        self.standings.append(standing)

    def limit_refused(self, dimension: str) -> None:
        self.limits_refused.append(dimension)

    def render(self, accept: str) -> tuple[bytes, str]:
        return f"# accept={accept}\n".encode(), "text/plain; version=0.0.4; charset=utf-8"


TIMEOUTS = Timeouts(
    connect=5,
    chat=180,
    image_attempt=240,
    image_total=280,
    video_submit=60,
    transcript=55,
    speech=60,
    voice=60,
    task_poll=10,
)


@dataclass(frozen=True)
class FakeConfig:
    max_body_bytes: int = MAX_BODY_BYTES
    cors_origins: tuple[str, ...] = ()
    messages_versions: tuple[str, ...] = ("2023-06-01",)
    tls: object | None = None
    describe: bool = True
    translations: frozenset[str] = frozenset()
    timeouts: Timeouts = TIMEOUTS


@dataclass
class World:
    """The fakes of one test, and the services made of them."""

    keys: FakeKeys = field(default_factory=FakeKeys)
    money: FakeMoney = field(default_factory=FakeMoney)
    metrics: FakeMetrics = field(default_factory=FakeMetrics)
    clock: FakeClock = field(default_factory=FakeClock)
    in_flight: RequestsInFlight = field(default_factory=RequestsInFlight)
    overload: Overload = field(default_factory=lambda: Overload(None))
    refusals: list[RefusedCall] = field(default_factory=list)
    registry: Registry = field(default_factory=lambda: Registry.of([], []))
    new_id: Callable[[], uuid.UUID] = uuid.uuid4
    kept: FakeStoredResponses = field(default_factory=FakeStoredResponses)
    config: FakeConfig = field(default_factory=FakeConfig)
    bodies: BodyBudget = field(default_factory=lambda: BodyBudget(BODIES_BYTES))
    redact: Callable[[str], str] = str
    wiki: Any = None  # a `WikiServices`, for tests that read knowledge bases

    def __post_init__(self) -> None:
        self.limits = AccountLimits(
            limiter=Limiter(clock=self.clock), metrics=cast(Any, self.metrics)
        )
        logs = LogServices(
            database=cast(Any, None),
            rates=Limiter(clock=self.clock),
            credits_per_usd=Decimal(1000),
            cursors=CursorSeal(b"a key for tests only"),
            summaries=SummaryCache(self.clock),
        )
        self.services = Services(
            keys=cast(Any, self.keys),
            wallets=cast(Any, self.money),
            settled=self.money.settled,
            limits=self.limits,
            current=cast(Any, self),
            metrics=cast(Any, self.metrics),
            tracing=Tracing(None, sampling=Sampling(0.0), rng=random.random),
            clock=self.clock,
            new_id=self.new_id,
            config=cast(Any, self.config),
            refusals=self.refusals.append,
            end_users=EndUsers(EndUserKey(b"a key for tests only"), lambda: "plain"),
            idempotency=IdempotencyGuard(
                kept=self.kept, response_bytes_max=1024, metrics=cast(Any, self.metrics)
            ),
            chat_calls=cast(Any, None),
            media=cast(Any, None),
            logs=logs,
            wiki=self.wiki,
            agents=cast(Any, None),
            in_flight=self.in_flight,
            overload=self.overload,
            bodies=self.bodies,
        )

    def application(self, *rows: Endpoint) -> GatewayApplication:
        """The gateway's own routes, or these alone; nothing here calls a model."""
        if rows:
            return GatewayApplication(rows, services=self.services)
        return make_application(self.services)
