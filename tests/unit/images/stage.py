"""An images call in the world of `tests/unit/calls`: channels that make images, and their answers.

async with stage(a=[answer(made(2))]) as w:
    told = await generate(w, n=2)
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from decimal import Decimal
from typing import Any

from channels.prices import PriceSpec
from gw.calls.media_calls import PieceCall
from gw.idempotency.claim import IdempotencyClaim
from tests.support import calls
from tests.support.calls import image_call, image_response
from tests.support.specs import make_model
from tests.unit.calls.world import (
    ACCOUNT,
    CallResult,
    RecordingWriter,
    Script,
    World,
    in_order,
    world,
)

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
    channels = in_order(scripts, protocols=frozenset({"images"}))
    model = make_model(
        *scripts, endpoint_type="images_generations", price=price, multiplier=Decimal(multiplier)
    )
    return world(scripts, balance=balance, channels=channels, model=model)


made = image_response


def claim_of(key: str) -> IdempotencyClaim:
    """A claim on this key, always for the same request."""
    return calls.claim_of(ACCOUNT, key)


def prepare(w: World, **body: Any) -> PieceCall:
    """A call as the endpoint makes it; `key` is the idempotency key that it claims."""
    cap, key = body.pop("cap", None), body.pop("key", None)
    call = image_call(
        w.context("images", cap_nano_usd=cap),
        idempotency=None if key is None else claim_of(key),
        **body,
    )
    w.calls.append(call)
    return call


async def generate(w: World, writer: RecordingWriter | None = None, **body: Any) -> CallResult:
    """One call from its beginning to its end."""
    call, writer = prepare(w, **body), writer or RecordingWriter()
    w.begin(call, writer)
    return await w.end(call, writer)
