"""Asynchronous clients of messages and native-content, which bring other HTTP libraries along."""

from __future__ import annotations

import asyncio

import pytest
from anthropic import AsyncAnthropic

from tests.acceptance.test_google_sdk import client_of
from tests.acceptance.translated import SETTINGS, USAGE, told_to
from tests.support.aio import eventually, run
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

# The house of this module.
__all__ = ["SETTINGS"]

# The library of native-content makes a class of its own of aiohttp's session.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

CALLS = 8
COST_NANO_USD = 1_640_000


@pytest.mark.parametrize("of_model", ["claude", "gpt"])
def test_messages_at_once_are_each_charged_once(h: House, tenant: Tenant, of_model: str) -> None:
    told_to(h, of_model, text="Grüße, 世界", chars_per_event=2, usage=USAGE)

    async def main() -> None:
        async with AsyncAnthropic(base_url=h.gateway.url, api_key=tenant.key) as sdk:

            async def one() -> str:
                async with sdk.messages.stream(
                    model=of_model, max_tokens=50, messages=[{"role": "user", "content": "Hello"}]
                ) as stream:
                    return "".join([piece async for piece in stream.text_stream])

            assert set(await asyncio.gather(*(one() for _ in range(CALLS)))) == {"Grüße, 世界"}

    run(main())
    assert tenant.client.remaining_nano_usd() == 10**9 - CALLS * COST_NANO_USD


@pytest.mark.parametrize("of_model", ["gemini", "gpt", "claude"])
def test_native_content_at_once_is_charged_once_each(
    h: House, tenant: Tenant, of_model: str
) -> None:
    told_to(h, of_model, text="Grüße, 世界", chars_per_event=2, usage=USAGE)

    async def main() -> None:
        async with client_of(h, tenant.key).aio as sdk:

            async def streamed() -> str:
                chunks = await sdk.models.generate_content_stream(model=of_model, contents="Hello")
                return "".join([chunk.text or "" async for chunk in chunks])

            async def whole() -> str:
                answer = await sdk.models.generate_content(model=of_model, contents="Hello")
                return answer.text or ""

            said = await asyncio.gather(*(call() for call in (streamed, whole) * (CALLS // 2)))
            assert set(said) == {"Grüße, 世界"}

    run(main())
    assert tenant.client.remaining_nano_usd() == 10**9 - CALLS * COST_NANO_USD


@pytest.mark.parametrize("of_model", ["gemini", "gpt", "claude"])
def test_leaving_a_stream_cancels_the_upstream(h: House, tenant: Tenant, of_model: str) -> None:
    told_to(h, of_model, endless=True)

    async def main() -> None:
        async with client_of(h, tenant.key).aio as sdk:
            chunks = await sdk.models.generate_content_stream(model=of_model, contents="Hello")
            async for chunk in chunks:
                assert chunk.candidates
                break
            await chunks.aclose()  # type: ignore[attr-defined]
        await eventually(lambda: h.upstream.stats()["active"] == 0, what="the upstream is let go")

    run(main())
    assert h.upstream.stats()["cancelled_by_client"] == 1
