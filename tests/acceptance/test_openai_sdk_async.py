"""The asynchronous client of the official library, alone and many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.acceptance.test_openai_sdk import HELLO
from tests.support.aio import run
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.waiting import until

CALLS = 40
USAGE = {"input": 50, "output": 20, "cached": 30}
# 20 fresh at 1, 30 cached at 0.1, 20 out at 10 USD per million tokens.
COST_NANO_USD = 20 * 1_000 + 30 * 100 + 20 * 10_000


def with_sdk(h: House, tenant: Tenant, use: Callable[[AsyncOpenAI], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as sdk:
            await use(sdk)

    run(main())


@pytest.mark.parametrize("is_asked", [True, False], ids=["usage asked", "usage not asked"])
def test_streams_at_once_are_each_charged_once(h: House, tenant: Tenant, is_asked: bool) -> None:
    asked: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_asked else {}
    sim = {"usage": USAGE, "chars_per_event": 3, "delay_event_ms": 1}

    async def use(sdk: AsyncOpenAI) -> None:
        async def one(number: int) -> None:
            stream = await sdk.chat.completions.create(
                model="sim-model",
                messages=[{"role": "user", "content": f"Number {number}."}],
                stream=True,
                extra_body={"sim": sim},
                **asked,
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert f"Number {number}." in text
            stated = [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage is not None]
            assert stated == ([50] if is_asked else [])

        await asyncio.gather(*map(one, range(CALLS)))

    with_sdk(h, tenant, use)
    assert tenant.client.remaining_nano_usd() == 10**9 - CALLS * COST_NANO_USD


def test_cancelled_task_cancels_the_upstream(h: House, tenant: Tenant) -> None:
    async def use(sdk: AsyncOpenAI) -> None:
        call = asyncio.create_task(
            sdk.chat.completions.create(
                model="sim-model", messages=HELLO, extra_body={"sim": {"hang": "headers"}}
            )
        )
        await asyncio.to_thread(h.upstream.wait, active=1)
        call.cancel()
        await asyncio.to_thread(h.upstream.wait, cancelled=1, active=0)
        with pytest.raises(asyncio.CancelledError):
            await call

    with_sdk(h, tenant, use)
    assert tenant.client.remaining_nano_usd() == 10**9


def test_account_limit_is_a_rate_limit_error_that_names_itself(h: House) -> None:
    """The library waits as long as `Retry-After` says, then finds the place free."""
    tenant = h.tenant(concurrency=1)

    async def use(sdk: AsyncOpenAI) -> None:
        holding = asyncio.create_task(
            sdk.chat.completions.create(
                model="sim-model", messages=HELLO, extra_body={"sim": {"hang": "headers"}}
            )
        )
        await asyncio.to_thread(h.upstream.wait, active=1)
        with pytest.raises(openai.RateLimitError, match="concurrency") as caught:
            await sdk.with_options(max_retries=0).models.list()
        assert caught.value.response.headers["x-ratelimit-limit-concurrency"] == "1"
        patient = sdk.with_options(max_retries=100)
        waiting = asyncio.create_task(
            patient.chat.completions.create(model="sim-model", messages=HELLO)
        )
        # The model list has no row: this one is the call that is waiting now.
        await asyncio.to_thread(
            until,
            lambda: any(row["status"] == "rejected" for row in h.rows(tenant)),
            what="the refusal",
        )
        holding.cancel()
        assert (await waiting).choices

    with_sdk(h, tenant, use)
