"""The official library as its users use it: a base address, a key, and nothing else."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.common import CREATED, MODELS
from tests.support.aio import run

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as client:
        yield client


def test_models_are_those_of_the_registry(sdk: OpenAI) -> None:
    models = list(sdk.models.list())
    assert [model.id for model in models] == MODELS
    assert {model.object for model in models} == {"model"}
    assert (models[0].owned_by, models[0].created) == ("sim", CREATED)


def test_one_model_is_looked_up_by_id_or_alias(sdk: OpenAI) -> None:
    model = sdk.models.retrieve("sim-latest")
    assert (model.id, model.object, model.created) == ("sim-model", "model", CREATED)
    assert sdk.models.retrieve("m").id == "m"
    with pytest.raises(openai.NotFoundError) as caught:
        sdk.models.retrieve("gone")
    assert caught.value.code == "model_not_found"


def test_tokens_of_a_response_are_counted_for_nothing(h: Deployment) -> None:
    poor = h.tenant(nano_usd=0)
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=poor.key, max_retries=0) as sdk:
        counted = sdk.responses.input_tokens.count(model="sim-model", input="Hello, how are you?")
        assert counted.object == "response.input_tokens"
        assert 6 <= counted.input_tokens <= 12
        with pytest.raises(openai.InternalServerError) as caught:
            sdk.responses.input_tokens.count(model="painter", input="Hello")
    assert (caught.value.status_code, caught.value.code) == (503, "no_channel_available")


def test_unknown_key_is_an_authentication_error(h: Deployment) -> None:
    with (
        OpenAI(base_url=f"{h.gateway.url}/v1", api_key="sk-platform-" + "0" * 64) as stranger,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        stranger.chat.completions.create(model="sim-model", messages=HELLO)
    assert (caught.value.code, caught.value.type) == ("invalid_api_key", "authentication_error")
    assert "x-gateway-trace" in caught.value.response.headers


def test_empty_balance_is_a_402(h: Deployment) -> None:
    poor = h.tenant(nano_usd=0)
    with (
        OpenAI(base_url=f"{h.gateway.url}/v1", api_key=poor.key) as sdk,
        pytest.raises(openai.APIStatusError) as caught,
    ):
        sdk.chat.completions.create(model="sim-model", messages=HELLO)
    assert caught.value.status_code == 402
    assert (caught.value.code, caught.value.type) == ("quota_exceeded", "insufficient_quota")
    assert h.upstream.stats()["requests"] == 0


def test_upstream_429_is_tried_again_and_then_a_rate_limit_error(
    h: Deployment, sdk: OpenAI
) -> None:
    # The library waits as long as it is told to; it is told by the upstream, through us.
    h.upstream.fault(status=429, message="Slow down, please.", retry_after=0.05)
    with pytest.raises(openai.RateLimitError) as caught:
        sdk.chat.completions.create(model="sim-model", messages=HELLO)
    assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
    assert "Slow down, please." in caught.value.message
    assert caught.value.response.headers["retry-after"] == "0.05"
    assert h.upstream.requested("one", "two") == [1 + openai.DEFAULT_MAX_RETRIES, 0]


CALLS = 40

USAGE = {"input": 50, "output": 20, "cached": 30}

# 20 fresh at 1, 30 cached at 0.1, 20 out at 10 USD per million tokens.
COST_NANO_USD = 20 * 1_000 + 30 * 100 + 20 * 10_000


def with_sdk(h: Deployment, tenant: Tenant, use: Callable[[AsyncOpenAI], Awaitable[None]]) -> None:
    async def main() -> None:
        async with AsyncOpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as sdk:
            await use(sdk)

    run(main())


@pytest.mark.parametrize("is_requested", [True, False], ids=["usage asked", "usage not asked"])
def test_streams_at_once_are_each_charged_once(
    h: Deployment, tenant: Tenant, is_requested: bool
) -> None:
    request: dict[str, Any] = {"stream_options": {"include_usage": True}} if is_requested else {}
    sim = {"usage": USAGE, "chars_per_event": 3, "delay_event_ms": 1}

    async def use(sdk: AsyncOpenAI) -> None:
        async def one(number: int) -> None:
            stream = await sdk.chat.completions.create(
                model="sim-model",
                messages=[{"role": "user", "content": f"Number {number}."}],
                stream=True,
                extra_body={"sim": sim},
                **request,
            )
            chunks = [chunk async for chunk in stream]
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert f"Number {number}." in text
            stated = [chunk.usage.prompt_tokens for chunk in chunks if chunk.usage is not None]
            assert stated == ([50] if is_requested else [])

        await asyncio.gather(*map(one, range(CALLS)))

    with_sdk(h, tenant, use)
    assert tenant.client.remaining_nano_usd() == 10**9 - CALLS * COST_NANO_USD


def test_cancelled_task_cancels_the_upstream(h: Deployment, tenant: Tenant) -> None:
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


def test_account_limit_is_a_rate_limit_error_that_names_itself(h: Deployment) -> None:
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
