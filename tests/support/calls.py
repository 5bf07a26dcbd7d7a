"""Calls as the endpoints make them, and what runs them, without HTTP."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from actors.channel_directory import ChannelDirectory
from actors.clock import Clock
from actors.store.session import Statements
from actors.wallet.claims import Claim
from actors.wallet.live_calls import LiveCalls
from actors.wallet.messages import CallFacts, NewJob
from actors.wallet.piece_prices import ImagePrice
from actors.wallet.wallets import Wallets
from channels.data_promise import DataDemand
from channels.dialects.chat import request as chat
from channels.dialects.images import request as images_request
from channels.http.interfaces import UpstreamClient
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.registry import ModelSpec, Registry
from gw.api.images.bill import ImageBill
from gw.budgets.matching import LiveNodes
from gw.budgets.node import Spender
from gw.calls.bills import JobBill
from gw.calls.chain import Chain
from gw.calls.chat import ChatCalls
from gw.calls.chat_request import ChatCall, ChatClientRequest
from gw.calls.detached import DetachedTasks
from gw.calls.media import Media
from gw.calls.media_calls import JSON, Delivery, PieceCall, SubmitCall, SubmitResult
from gw.calls.piece_upstream import PieceUpstream
from gw.calls.request import PieceRequest
from gw.calls.served_models import ServedModels
from gw.calls.settlement import Billing
from gw.calls.stream_events import Framing, SseFraming
from gw.config.config import Precharge
from gw.config.live import LiveConfig
from gw.http.drain import RequestsInFlight
from gw.idempotency.claim import IdempotencyClaim
from metrics.prometheus import Metrics
from metrics.spans import UNSAMPLED
from tests.support.budgets import FakeBudgets, PlainNames

RESPONSE_BYTES_MAX = 1_000_000
SPENDER = Spender(user="owner")
NO_MODELS = Registry.of([], [])


@dataclass(frozen=True)
class Limits:
    """The time a call may take, in seconds: a chat, one attempt of an image, all of them."""

    chat_seconds: float
    attempt_seconds: float
    total_seconds: float


def in_force(redactor: Redactor, registry: Registry = NO_MODELS) -> LiveConfig:
    """What calls read of the configuration in force."""
    config = SimpleNamespace(keep_alive_seconds=15.0, keep_alive_before_first_event=False)
    return cast(LiveConfig, SimpleNamespace(config=config, redactor=redactor, registry=registry))


@dataclass(frozen=True)
class UseCases:
    """What runs calls, in one process."""

    billing: Billing
    chat_calls: ChatCalls
    images: Media[PieceCall]


def use_cases(
    *,
    wallets: Wallets,
    live: LiveCalls,
    channels: ChannelDirectory,
    http: UpstreamClient,
    redactor: Redactor,
    registry: Registry = NO_MODELS,
    offload: OffloadPool,
    limits: Limits,
    clock: Clock,
    metrics: Metrics,
    precharge: Precharge = "messages",
    budgets: Statements | None = None,
) -> UseCases:
    """Wire them as `gw serve` does."""
    current = in_force(redactor, registry)
    billing = Billing(
        wallets=wallets,
        nodes=LiveNodes(budgets or FakeBudgets(), clock, PlainNames()),
        live=live,
        current=current,
        clock=clock,
        metrics=metrics,
    )
    chat_calls = ChatCalls(
        billing=billing,
        channels=channels,
        http=http,
        current=current,
        clock=clock,
        timeout_seconds=limits.chat_seconds,
        response_bytes_max=RESPONSE_BYTES_MAX,
        offload=offload,
        precharge=precharge,
        served_models=ServedModels(),
        metrics=metrics,
    )
    upstream = PieceUpstream(
        http=http,
        current=current,
        clock=clock,
        attempt_seconds=limits.attempt_seconds,
        response_bytes_max=RESPONSE_BYTES_MAX,
    )
    images = Media(
        billing=billing,
        channels=channels,
        upstream=upstream,
        current=current,
        total_seconds=limits.total_seconds,
        detached=DetachedTasks(RequestsInFlight()),
    )
    return UseCases(billing, chat_calls, images)


@dataclass(frozen=True)
class CallContext:
    """Who asks for what, when: alike for calls of every kind."""

    facts: CallFacts
    model: ModelSpec
    started: float
    offload: OffloadPool
    cap_nano_usd: int | None = None
    spender: Spender = SPENDER
    demand: DataDemand | None = None


def chat_call(
    context: CallContext,
    body: bytes,
    *,
    redact: Callable[[str], str] = str,
    request_type: type[ChatClientRequest] = ChatClientRequest,
    framing: Framing | None = None,
    pin: str | None = None,
) -> ChatCall:
    """A call for a chat. Raises InvalidRequest."""
    request, model = chat.read_request(body), context.model
    return ChatCall(
        facts=context.facts,
        model=model,
        chain=Chain.of(model, model.chain, {}, lambda _: None) if model.chain else None,
        cap_nano_usd=context.cap_nano_usd,
        spender=context.spender,
        demand=context.demand,
        forwards_usage=request.include_usage,
        pin=pin,
        is_named=pin is not None,
        span=UNSAMPLED,
        request=request_type(
            request,
            protocol="chat",
            model=model,
            body=body,
            weight=0,
            helpers=lambda: context.offload.of(context.facts.account_id),
            redact=redact,
            is_repeated=lambda candidate, raw: False,
        ),
        framing=framing or SseFraming(),
        started=context.started,
        detail={"request": request.parameters},
    )


def image_call(
    context: CallContext, *, idempotency: IdempotencyClaim | None = None, **body: Any
) -> PieceCall:
    """A call for images; `body` are the request's members beside model and prompt."""
    written = json.dumps({"model": context.model.id, "prompt": "a boat", **body}).encode()
    request = images_request.read_request(written)
    return PieceCall(
        facts=context.facts,
        model=context.model,
        cap_nano_usd=context.cap_nano_usd,
        spender=context.spender,
        demand=context.demand,
        bill=ImageBill(request, ImagePrice.of(context.model.price, context.model.multiplier)),
        cheaper="or ask for fewer images.",
        span=UNSAMPLED,
        request=PieceRequest(
            request,
            protocol="images",
            body=written,
            weight=0,
            helpers=lambda: context.offload.of(context.facts.account_id),
        ),
        started=context.started,
        idempotency=idempotency,
    )


def job_call(
    facts: CallFacts, model: ModelSpec, job: NewJob, *, hold_nano_usd: int, body: bytes, **more: Any
) -> SubmitCall:
    """A call that begins a job; `body` is its response."""

    async def deliver(result: SubmitResult) -> Delivery:
        return Delivery(JSON, body)

    return SubmitCall(
        facts=facts,
        model=model,
        spender=SPENDER,
        demand=None,
        bill=JobBill(job.price, hold_nano_usd),
        cheaper="or ask for fewer seconds.",
        job=job,
        deliver=deliver,
        span=UNSAMPLED,
        **more,
    )


def image_response(count: int, **more: Any) -> bytes:
    """An upstream's response with so many images."""
    data = [{"url": f"https://pictures.example/{number}.png"} for number in range(count)]
    return json.dumps({"created": 1, "model": "up", "data": data, **more}).encode()


def claim_of(account: str, key: str) -> IdempotencyClaim:
    """A claim on this key, always for the same request."""
    claim = Claim(key=key, fingerprint=b"one")
    return IdempotencyClaim(account_id=account, claim=claim, response_bytes_max=1000)
