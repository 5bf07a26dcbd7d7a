"""Clients of the simulation: they ask, read slowly, leave, and ask again with the same key."""

import asyncio
import json
from asyncio import Future
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Literal
from uuid import UUID

from msgspec import Raw

from actors.jobs.service import new_job_id
from actors.limits.accounts import LimitExceeded
from actors.store.errors import StoreUnavailable
from actors.wallet.attribution import Attribution
from actors.wallet.messages import CallFacts
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.wallets import KeyTaken
from channels.media.requests import ContentItem, GeneralVideo
from channels.registry import ModelSpec
from gw.budgets.node import Spender
from gw.calls.media_calls import SubmitCall
from gw.errors import GatewayError
from gw.keys.entries import GRACE_SECONDS
from gw.keys.principal import KeyRefused, Principal
from tests.simulation.process import GatewayProcess
from tests.simulation.upstreams import CALL, FILM_SECONDS, IMAGES_MAX, Response
from tests.support.aio import waited
from tests.support.cached_keys import authenticated
from tests.support.calls import CallContext, chat_call, claim_of, image_call, job_call
from tests.unit.calls.sse import DONE
from tests.unit.calls.world import RecordingWriter

Kind = Literal["chat", "stream", "image", "film"]
ATTEMPTS_MAX = 3
# A chain, and the models that serve it, each on channels of its own.
CHAIN = "best"
STEPS = {"m": ("a", "b"), "n": ("c", "d")}
MESSAGES = [{"role": "user", "content": "Say hello. " * 20}]
# A process that has heard nothing believes what it has read: its time to live, and of grace.
BELIEVED_SECONDS = 5.0 + GRACE_SECONDS + 1.0


class SlowClient(RecordingWriter):
    """Reads with pauses."""

    def __init__(self, chance: Random, *, is_slow: bool) -> None:
        super().__init__()
        self._chance = chance
        self._is_slow = is_slow
        self.is_left_alone = False
        # When a call that its client has left has ended.
        self.on_end: Callable[[], None] = lambda: None

    def write(self, block: bytes) -> Future[None] | None:
        super().write(block)
        if self._is_slow and self._chance.random() < 0.3:
            return asyncio.ensure_future(asyncio.sleep(self._chance.expovariate(1)))
        return None

    def detached(self) -> None:
        """The call goes on."""
        self.is_left_alone = True

    def ended_detached(self, error: Exception | None) -> None:
        """Nobody is there to be told."""
        self.on_end()


@dataclass
class Credential:
    """A key as its holder knows it, and what has become of it."""

    key_id: str
    account: str
    text: str
    expires_at: float | None = None  # Unix seconds
    cap_nano_usd: int | None = None
    # Since when which processes must refuse it, because they have said that they know; others
    # believe what they have read for a while.
    refused_since: float | None = None
    refused_by: frozenset[str] = frozenset()

    def must_be_refused(self, process: str, at: float) -> bool:
        """Whether a request that came at that time must not have passed."""
        if self.refused_since is None or at < self.refused_since:
            return False
        return process in self.refused_by or at > self.refused_since + BELIEVED_SECONDS


@dataclass
class Call:
    """One request of a client to one process, and all that is to be held against the ledger."""

    number: int
    kind: Kind
    credential: Credential
    process: GatewayProcess
    client: SlowClient
    fault: Callable[[str], None]
    key: str | None = None  # of its submission
    attribution: Attribution | None = None
    ceiling_nano_usd: int | None = None  # of its run
    job_id: str | None = None
    tried: list[str] = field(default_factory=list)
    response: Response | None = None  # of the upstream that has said last that it makes it
    requested_at: float = 0.0
    ended_at: float = inf
    error: str | None = None
    refusal: Mapping[str, str] = field(default_factory=dict)  # the headers of its error
    was_left: bool = False
    is_chained: bool = False  # it names the chain
    is_trial: bool = False
    is_over: bool = False

    @property
    def call_id(self) -> UUID:
        return UUID(int=self.number)

    @property
    def account(self) -> str:
        return self.credential.account

    @property
    def served(self) -> str:
        """The model that a call for text was tried at last."""
        second = self.is_chained and self.tried and self.tried[-1] in STEPS["n"]
        return "n" if second else "m"

    @property
    def is_whole(self) -> bool:
        """Whether the client got an answer to its end."""
        client = self.client
        if self.kind == "stream" and DONE not in client.sent:
            return False
        return client.has_ended and self.error is None and client.http_status < 300

    def asks(self, channel_id: str) -> None:
        """An attempt begins: at most three, and none once the client was sent anything."""
        self.tried.append(channel_id)
        if len(self.tried) == 1 and self._is_before_its_turn(channel_id):
            self.is_trial = True
            is_probe = self.process.channels[channel_id].health.is_probing
            if self.kind in ("image", "film") or not is_probe:
                self.fault(f"call {self.number}, of {self.kind}, tries {channel_id} out of turn")
        if len(self.tried) > ATTEMPTS_MAX or len(set(self.tried)) < len(self.tried):
            self.fault(f"call {self.number} tries {self.tried}")
        if self.client.blocks:
            self.fault(f"call {self.number} fails over after its first byte")
        if self.response is not None and self.kind == "image":
            self.fault(f"call {self.number} has its images made twice")
        if self.credential.must_be_refused(self.process.name, self.requested_at):
            self.fault(f"call {self.number} reaches an upstream with a key that is refused")

    def _is_before_its_turn(self, channel_id: str) -> bool:
        """Whether a channel of a higher rank would have taken the call."""
        channels = self.process.channels
        rank = channels[channel_id].spec.priority
        return any(
            one.spec.priority < rank
            and one.health.state == "closed"
            and one.may_lease
            and one.spec.ring.is_ready
            for one in channels.values()
        )

    def accepted(self, response: Response) -> None:
        """The last attempt is answered."""
        self.response = response

    @property
    def has_begun(self) -> bool:
        """Whether the client was sent a part of an answer, not of an error."""
        return bool(self.client.blocks) and self.client.http_status < 300

    @property
    def characters_sent(self) -> int:
        """How many characters of the response its client was sent, of a stream."""
        lines = self.client.sent.split(b"\n")
        events = [json.loads(one[6:]) for one in lines if one.startswith(b"data: {")]
        choices = [choice for event in events for choice in event.get("choices", ())]
        return sum(len(choice["delta"].get("content") or "") for choice in choices)

    async def run(self, models: dict[str, ModelSpec]) -> None:
        """Serve it in its process, to its end."""
        token = CALL.set(self)
        process, client = self.process, self.client
        self.requested_at = asyncio.get_running_loop().time()
        process.in_flight.enter(client)
        try:
            if process.in_flight.is_refusing:
                self.error = "draining"
            else:
                await self._checked(models)
        except GatewayError as error:
            self.error, self.refusal = error.kind.code, error.headers or {}
        except KeyTaken as taken:
            self.error = taken.state
        except asyncio.CancelledError:
            self.error = "cancelled"
            raise
        finally:
            process.in_flight.leave(client)
            self.is_over = True
            self.ended_at = asyncio.get_running_loop().time()
            CALL.reset(token)

    async def _checked(self, models: dict[str, ModelSpec]) -> None:
        """What stands before the call, in the order of `gw/api/checks.py`; then the call."""
        process, client = self.process, self.client
        try:
            principal = await authenticated(process.keys, self.credential.text)
            expires_at = self.credential.expires_at
            if expires_at is not None and process.clock.now() >= expires_at:
                self.fault(f"call {self.number} passes with a key that has expired")
            permit = await waited(
                process.limits.enter(
                    principal.account_id,
                    rpm=principal.rpm_limit,
                    concurrency=principal.concurrency_limit,
                )
            )
        except KeyRefused as refused:
            self.error = refused.reason
            return
        except LimitExceeded as exceeded:
            self.error = exceeded.dimension
            return
        except StoreUnavailable:
            self.error = "unavailable"
            return
        admissions = process.around.admissions
        admission = admissions.enter(process, principal)

        def left() -> None:
            permit.leave()
            admissions.in_flight.discard(admission)

        client.on_end = left
        try:
            await self._serve(models, principal)
        finally:
            if not client.is_left_alone:
                left()

    async def _serve(self, models: dict[str, ModelSpec], principal: Principal) -> None:
        process, client = self.process, self.client
        if self.kind == "film":
            await process.submits.run_detached(self._film(models["film"], principal), client)
        elif self.kind == "image":
            context = self._context("images", models["picture"], principal)
            submitted = None if self.key is None else claim_of(self.account, self.key)
            call = image_call(context, idempotency=submitted, n=IMAGES_MAX)
            await process.images.run_call(call, client)
        else:
            model = models[CHAIN if self.is_chained else "m"]
            context = self._context("chat", model, principal)
            await process.chat_calls.run_call(chat_call(context, self._chat()), client)

    def _context(self, protocol: str, model: ModelSpec, principal: Principal) -> CallContext:
        process = self.process
        facts = self._facts(protocol, model.id)
        cap = principal.spend_cap_nano_usd
        spender = Spender(
            budgets_version=principal.budgets_version,
            user=principal.user,
            ceiling_nano_usd=self.ceiling_nano_usd,
        )
        now = process.clock.monotonic()
        return CallContext(facts, model, now, process.offload, cap, spender)

    def _facts(self, protocol: str, model: str) -> CallFacts:
        return CallFacts(
            call_id=self.call_id,
            account_id=self.account,
            key_id=self.credential.key_id,
            protocol=protocol,
            model=model,
            submitted_at=self.process.clock.now(),
            job_id=self.job_id,
            attribution=self.attribution,
        )

    def _chat(self) -> bytes:
        requested = {"model": "m", "messages": MESSAGES, "max_tokens": 100}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return json.dumps({**requested, **(options if self.kind == "stream" else {})}).encode()

    def _film(self, model: ModelSpec, principal: Principal) -> SubmitCall:
        process, price = self.process, MediaPrice.of(model)
        self.job_id = new_job_id("video")
        text = ContentItem("text", "a boat", Raw(b'{"type":"text","text":"a boat"}'))
        return job_call(
            self._facts("videos", "film"),
            model,
            process.jobs.new_job("video", price=price, quantity=FILM_SECONDS * 1000),
            hold_nano_usd=price.cost_nano_usd(FILM_SECONDS * 1000),
            body=json.dumps({"id": self.job_id, "status": "queued"}).encode(),
            cap_nano_usd=principal.spend_cap_nano_usd,
            request=GeneralVideo(model="film", content=(text,), duration=FILM_SECONDS),
            started=process.clock.monotonic(),
            idempotency=None if self.key is None else claim_of(self.account, self.key),
        )
