"""Models that use the knowledge base: tool loops of official libraries, over the gateway both ways.

The libraries ask the gateway's models and its MCP server under one key; the upstream of the models
is the simulator, which calls the tools that a test has it call.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.bases import PAGES, imported
from tests.acceptance.translated import SETTINGS, direct

pytestmark = pytest.mark.long

# The deployment of this module.
__all__ = ["SETTINGS"]

ON_BOTH = pytest.mark.parametrize("of_model", ["claude", "gpt"])
QUESTION = "How fast is the search?"
RESPONSE = "Very fast, says the page."
# What the model wants, one after the other; the last id leads nowhere.
CALLS = [
    ("search_wiki", {"q": "检索"}),
    ("read_page", {"id": "zh"}),
    ("read_page", {"id": "nothing"}),
]
BODY = PAGES["zh.md"].splitlines()[1]


@pytest.fixture(scope="module")
def reader(shared: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with a personal base."""
    tenant = shared.tenant()
    imported(shared, tenant, tmp_path_factory.mktemp("base"))
    return tenant


@asynccontextmanager
async def knowledge(h: Deployment, reader: Tenant) -> AsyncIterator[Client]:
    """The MCP client of a reader."""
    headers = {"Authorization": f"Bearer {reader.key}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{h.gateway.url}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


def turns(h: Deployment, of_model: str) -> Iterator[None]:
    """Have the model want one call each turn, and answer in the last."""
    for name, arguments in CALLS:
        direct(h, of_model, tool_calls=[{"name": name, "arguments": arguments}])
        yield
    direct(h, of_model, text=RESPONSE)
    yield


def check_results_were_seen(h: Deployment) -> None:
    """The model was sent every result: entries, the page, and why there is no other."""
    history = json.dumps(h.upstream.last_body()["messages"], ensure_ascii=False)
    assert h.upstream.stats()["requests"] == len(CALLS) + 1
    for seen in (QUESTION, "total_hits", BODY, "There is no page of this id"):
        assert seen in history


@ON_BOTH
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_the_tool_runner_of_the_anthropic_library(
    h: Deployment, reader: Tenant, of_model: str, is_stream: bool
) -> None:
    turn = turns(h, of_model)
    next(turn)
    async with (
        knowledge(h, reader) as client,
        AsyncAnthropic(base_url=h.gateway.url, api_key=reader.key, max_retries=0) as anthropic,
    ):
        listed = await client.list_tools()
        request: dict[str, Any] = {
            "model": of_model,
            "max_tokens": 500,
            "tools": [async_mcp_tool(tool, client.session) for tool in listed.tools],
            "messages": [{"role": "user", "content": QUESTION}],
        }
        if is_stream:
            async for stream in anthropic.beta.messages.tool_runner(**request, stream=True):
                last = await stream.get_final_message()
                next(turn, None)
        else:
            async for message in anthropic.beta.messages.tool_runner(**request):
                last = message
                next(turn, None)
    assert [block.text for block in last.content if block.type == "text"] == [RESPONSE]
    check_results_were_seen(h)


@ON_BOTH
async def test_a_loop_with_the_openai_library(h: Deployment, reader: Tenant, of_model: str) -> None:
    turn = turns(h, of_model)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    async with (
        knowledge(h, reader) as client,
        AsyncOpenAI(base_url=f"{h.gateway.url}/v1", api_key=reader.key, max_retries=0) as openai,
    ):
        tools: list[Any] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.input_schema,
                },
            }
            for tool in (await client.list_tools()).tools
        ]
        for _ in turn:
            completion = await openai.chat.completions.create(
                model=of_model, messages=messages, tools=tools
            )
            message = completion.choices[0].message
            if not message.tool_calls:
                break
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                assert call.type == "function"
                arguments = json.loads(call.function.arguments)
                result = await client.call_tool(call.function.name, arguments)
                (item,) = result.content
                assert item.type == "text"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": item.text})
    assert message.content == RESPONSE
    check_results_were_seen(h)
