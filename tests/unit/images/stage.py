"""An images call in the world of `tests/unit/calls`: channels that make images, and their answers.

async with stage(a=[answer(made(2))]) as w:
    told = await generate(w, n=2)
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

from actors.wallet.claims import Claim
from actors.wallet.unit_pricing import ImagePrice
from channels.dialects import images
from channels.registry import HealthSpec, PriceSpec
from gw.api.images.bill import ImageBill
from gw.calls.media import MediaCall, SyncMediaRequest
from gw.idempotency.submission import Submission
from metrics.spans import UNSAMPLED
from tests.support.specs import make_channel, make_model
from tests.unit.calls.fake_wire import Script
from tests.unit.calls.world import ACCOUNT, Told, World, world
from tests.unit.calls.writer import RecordingWriter

EACH = 40_000_000  # nano-USD
PLAIN = PriceSpec(per_image=Decimal("0.04"))
AREA = PriceSpec(
    per_image=Decimal("0.04"),
    per_image_large=Decimal("0.08"),
    area_threshold_mp=Decimal("2.36"),
    per_reference=Decimal("0.005"),
)


def stage(
    given: Mapping[str, Sequence[Script]] | None = None,
    *,
    price: PriceSpec = PLAIN,
    multiplier: str = "1",
    balance: int = 10**9,
    **named: Sequence[Script],
) -> AbstractAsyncContextManager[World]:
    """Channels `a`, `b`, … in this order of priority, and the images model `m` on them."""
    scripts = {**(given or {}), **named}
    channels = [
        make_channel(
            name,
            priority=place,
            protocols=frozenset({"images"}),
            health=HealthSpec(failures=3),
        )
        for place, name in enumerate(scripts, start=1)
    ]
    model = make_model(
        *scripts,
        endpoint_type="images_generations",
        price=price,
        multiplier=Decimal(multiplier),
    )
    return world(scripts, balance=balance, channels=channels, model=model)


def made(count: int, **more: Any) -> bytes:
    """An answer with so many images."""
    data = [{"url": f"https://pictures.example/{number}.png"} for number in range(count)]
    return json.dumps({"created": 1, "model": "up", "data": data, **more}).encode()


def submission(key: str) -> Submission:
    """A claim on this key, always for the same request."""
    claim = Claim(key=key, fingerprint=b"one")
    return Submission(account_id=ACCOUNT, claim=claim, response_bytes_max=1000)


def prepare(w: World, **body: Any) -> MediaCall:
    """A call as the endpoint makes it; `key` is the idempotency key that it claims."""
    cap, key = body.pop("cap", None), body.pop("key", None)
    written = json.dumps({"model": "m", "prompt": "a boat", **body}).encode()
    request = images.read_request(written)
    call = MediaCall(
        facts=w.facts("images"),
        model=w.model,
        cap_nano_usd=cap,
        bill=ImageBill(request, ImagePrice.of(w.model.price, w.model.multiplier)),
        cheaper="or ask for fewer images.",
        span=UNSAMPLED,
        request=SyncMediaRequest(
            request,
            protocol="images",
            body=written,
            weight=0,
            offload=w.offload,
        ),
        started=w.clock.monotonic(),
        submission=None if key is None else submission(key),
    )
    w.calls.append(call)
    return call


async def generate(w: World, writer: RecordingWriter | None = None, **body: Any) -> Told:
    """One call from its beginning to its end."""
    call, writer = prepare(w, **body), writer or RecordingWriter()
    w.begin(call, writer)
    return await w.end(call, writer)
