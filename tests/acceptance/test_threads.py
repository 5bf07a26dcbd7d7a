"""Conversations that a messages upstream would keep: refused so that libraries send them whole.

The official libraries' tool runners ask for a thread first, and go on without one when they are
told that it is unsupported: the Python one in `test_mcp_loops.py`, the JavaScript one here
(`javascript/tool_runner.mjs`).
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, BadRequestError

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.translated import SETTINGS, direct
from tests.support.javascript import installed, run

pytestmark = pytest.mark.long

# The deployment of this module.
__all__ = ["SETTINGS"]

ON_BOTH = pytest.mark.parametrize("of_model", ["claude", "gpt"], ids=["own", "translated"])
JAVASCRIPT = Path(__file__).parent / "javascript"
UNSUPPORTED = {"error_code": "thread_unsupported_request", "unsupported": []}


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[Anthropic]:
    with Anthropic(base_url=h.gateway.url, api_key=tenant.key, max_retries=0) as client:
        yield client


def says(h: Deployment, of_model: str) -> None:
    """The upstream calls the tool for two cities, and then has the answer."""
    calls = [{"name": "weather", "arguments": {"city": city}} for city in ("Berlin", "Kyiv")]
    direct(h, of_model, times=1, tool_calls=calls)
    h.upstream.fault(text="Equally cold.")


@ON_BOTH
@pytest.mark.parametrize("thread", [{"type": "create"}, {"type": "continue"}], ids=str)
def test_thread_is_refused_without_a_cost(
    h: Deployment, sdk: Anthropic, tenant: Tenant, of_model: str, thread: Any
) -> None:
    with pytest.raises(BadRequestError) as refusal:
        sdk.beta.messages.create(
            model=of_model,
            max_tokens=5,
            messages=[{"role": "user", "content": "And now?"}],
            thread=thread,
        )
    body: Any = refusal.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert body["error"]["details"] == UNSUPPORTED
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == 10**9


def check_whole_history(h: Deployment) -> None:
    """Two requests went upstream, without a thread, the second with all that was said."""
    requests = h.upstream.requests()
    assert len(requests) == 2
    assert all("thread" not in json.loads(request["body"]) for request in requests)
    history = json.dumps(h.upstream.last_body()["messages"])
    for message in ("Where is it colder?", "7 degrees in Berlin", "7 degrees in Kyiv"):
        assert message in history


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the JavaScript library, in the version of its lock file."""
    return installed(JAVASCRIPT, tmp_path_factory.mktemp("javascript"))


@ON_BOTH
@pytest.mark.parametrize("way", ["whole", "stream"])
def test_javascript_tool_runner_sends_the_whole_history(
    h: Deployment, tenant: Tenant, javascript: Path, of_model: str, way: str
) -> None:
    says(h, of_model)
    printed = run(javascript, tenant.client, "tool_runner.mjs", of_model, way)
    assert [block["text"] for block in printed] == ["Equally cold."]
    check_whole_history(h)
