"""Clients of the simulation: they ask, read slowly, leave, and ask again with the same key."""

from __future__ import annotations

import asyncio
import json
from asyncio import Future
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal
from uuid import UUID

from msgspec import Raw

from actors.jobs.jobs import new_job_id
from actors.wallet.claims import Claim
from actors.wallet.messages import CallFacts
from actors.wallet.unit_pricing import MediaPrice
from actors.wallet.wallets import KeyTaken
from channels.dialects import chat
from channels.media.requests import ContentItem, GeneralVideo
from channels.registry import ModelSpec
from gw.calls.call import ChatCall
from gw.calls.framing import SseFraming
from gw.calls.job import JobCall
from gw.calls.plan import ConversationRequest
from gw.errors.table import GatewayError
from gw.idempotency.submission import Submission
from metrics.spans import UNSAMPLED
from tests.simulation.process import GatewayProcess
from tests.simulation.upstreams import CALL, FILM_SECONDS
from tests.unit.calls.sse import DONE
from tests.unit.calls.writer import RecordingWriter

Kind = Literal["chat", "stream", "film"]
ATTEMPTS_MAX = 3


class SlowClient(RecordingWriter):
    """Reads with pauses."""

    def __init__(self, chance: Random, *, is_slow: bool) -> None:
        super().__init__()
        self._chance = chance
        self._is_slow = is_slow

    def write(self, block: bytes) -> Future[None] | None:
        super().write(block)
        if self._is_slow and self._chance.random() < 0.3:
            return asyncio.ensure_future(asyncio.sleep(self._chance.expovariate(1)))
        return None

    def left_alone(self) -> None:
        """Nobody is there to be told."""

    def ended_alone(self, error: Exception | None) -> None:
        """Nobody is there to be told."""


@dataclass
class Call:
    """One request of a client to one process, and all that is to be held against the ledger."""

    number: int
    kind: Kind
    account: str
    process: GatewayProcess
    client: SlowClient
    fault: Callable[[str], None]
    key: str | None = None
    job_id: str | None = None
    asked: list[str] = field(default_factory=list)
    promises: list[tuple[int, int]] = field(default_factory=list)
    error: str | None = None
    was_left: bool = False
    is_over: bool = False

    @property
    def call_id(self) -> UUID:
        return UUID(int=self.number)

    @property
    def is_whole(self) -> bool:
        """Whether the client got an answer to its end."""
        if self.kind == "stream" and DONE not in self.client.sent:
            return False
        return self.client.has_ended and self.error is None

    def asks(self, channel_id: str) -> None:
        """An attempt begins: at most three, and none once the client was sent anything."""
        self.asked.append(channel_id)
        if len(self.asked) > ATTEMPTS_MAX:
            self.fault(f"call {self.number} tries {self.asked}")
        if self.client.blocks:
            self.fault(f"call {self.number} fails over after its first byte")

    def promised(self, prompt: int, completion: int) -> None:
        """The answer of the last attempt says what it has used."""
        self.promises.append((prompt, completion))

    # As a handler runs it

    async def run(self, models: dict[str, ModelSpec]) -> None:
        """Serve it in its process, to its end."""
        token = CALL.set(self)
        process, client = self.process, self.client
        process.in_flight.enter(client)
        try:
            if process.in_flight.is_refusing:
                self.error = "draining"
            elif self.kind == "film":
                await process.submits.run(self._film(models["film"]), client)
            else:
                await process.conversation.run(self._chat(models["m"]), client)
        except GatewayError as error:
            self.error = error.kind.code
        except KeyTaken as taken:
            self.error = taken.state
        except asyncio.CancelledError:
            self.error = "cancelled"
            raise
        finally:
            process.in_flight.leave(client)
            self.is_over = True
            CALL.reset(token)

    def _facts(self, protocol: str, model: str) -> CallFacts:
        return CallFacts(
            call_id=self.call_id,
            account_id=self.account,
            key_id=f"key of {self.account}",
            protocol=protocol,
            model=model,
            submitted_at=self.process.clock.now(),
            job_id=self.job_id,
        )

    def _chat(self, model: ModelSpec) -> ChatCall:
        process = self.process
        messages = [{"role": "user", "content": "Say hello. " * 20}]
        asked = {"model": "m", "messages": messages, "max_tokens": 100}
        options = {"stream": True, "stream_options": {"include_usage": True}}
        body = json.dumps({**asked, **(options if self.kind == "stream" else {})}).encode()
        request = chat.read_request(body)
        return ChatCall(
            facts=self._facts("chat", "m"),
            model=model,
            cap_nano_usd=None,
            is_stream=request.stream,
            forwards_usage=request.include_usage,
            content_bytes=request.messages_bytes,
            body_bytes=len(body),
            max_tokens=request.max_tokens,
            pin=None,
            span=UNSAMPLED,
            request=ConversationRequest(
                request,
                protocol="chat",
                model=model,
                body=body,
                weight=0,
                offload=process.offload,
                redact=str,
            ),
            framing=SseFraming(),
            started=process.clock.monotonic(),
            detail={"request": request.parameters},
        )

    def _film(self, model: ModelSpec) -> JobCall:
        process, price = self.process, MediaPrice.of(model)
        self.job_id = new_job_id("video")
        text = ContentItem("text", "a boat", Raw(b'{"type":"text","text":"a boat"}'))
        return JobCall(
            facts=self._facts("videos", "film"),
            model=model,
            cap_nano_usd=None,
            job=process.jobs.new_job("video", price=price, quantity=FILM_SECONDS * 1000),
            hold_nano_usd=price.cost_nano_usd(FILM_SECONDS * 1000),
            cheaper="or ask for fewer seconds.",
            request=GeneralVideo(model="film", content=(text,), duration=FILM_SECONDS),
            response_body=json.dumps({"id": self.job_id, "status": "queued"}).encode(),
            span=UNSAMPLED,
            started=process.clock.monotonic(),
            submission=None if self.key is None else _submission(self.account, self.key),
        )


def _submission(account: str, key: str) -> Submission:
    claim = Claim(key=key, fingerprint=b"one")
    return Submission(account_id=account, claim=claim, response_bytes_max=1000)
