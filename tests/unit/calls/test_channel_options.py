"""What a channel's configuration changes in the body that it is sent."""

import asyncio
import json
from typing import Any

from actors.routing import Candidate
from channels.dialects.table import CHAT_DIALECTS
from gw.calls.chat_request import ChatClientRequest
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model

LINE = {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332; cch=2dbb8;"}
WORDS = {"type": "text", "text": "You code."}
MESSAGES = {
    "model": "m",
    "max_tokens": 9,
    "system": [LINE, WORDS],
    "messages": [
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "Be brief."},
    ],
}


def sent(
    client: str, upstream: str, body: dict[str, Any], session: str | None = None, **channel: Any
) -> tuple[dict[str, Any], str]:
    """The upstream's body, and the warning."""
    raw = json.dumps(body).encode()
    request = ChatClientRequest(
        CHAT_DIALECTS[client].read_request(raw),
        client,
        raw,
        model=make_model("a"),
        redact=str,
        is_repeated=lambda candidate, raw: False,
        session=session,
    )
    candidate = Candidate("a", "up", upstream)
    spec = make_channel("a", protocols=frozenset({upstream}), **channel)
    plan = asyncio.run(request.plan_for(candidate, spec))
    assert isinstance(plan.request.body, bytes)
    return json.loads(plan.request.body), plan.headers.get("X-Protocol-Warning", "")


def test_channel_that_takes_instructions_first_gets_no_others() -> None:
    found, warning = sent("messages", "chat", MESSAGES, has_system_first=True)
    assert [one["role"] for one in found["messages"]] == ["system", "user"]
    assert "messages.role" in warning
    found, warning = sent("messages", "chat", MESSAGES)
    assert [one["role"] for one in found["messages"]] == ["system", "user", "system"]
    assert warning == "system.x-anthropic-billing-header"


def test_billing_header_reaches_the_protocols_maker_alone() -> None:
    assert sent("messages", "messages", MESSAGES)[0]["system"] == [LINE, WORDS]
    found, _ = sent("messages", "messages", MESSAGES, drops_billing_header=True)
    assert found["system"] == [WORDS]
    hosted: dict[str, Any] = {"wire": {"messages": "converse"}, "drops_billing_header": True}
    assert sent("messages", "messages", MESSAGES, **hosted)[0]["system"] == [{"text": "You code."}]


@cases("upstream", "chat", "responses")
def test_session_of_a_messages_client_is_the_key_of_the_cache(upstream: str) -> None:
    for takes, key in ((True, "s-1"), (False, None)):
        found, warning = sent("messages", upstream, MESSAGES, "s-1", takes_cache_key=takes)
        assert found.get("prompt_cache_key") == key
        assert "prompt_cache_key" not in warning


def test_key_of_a_responses_client_goes_on_or_is_in_the_warning() -> None:
    body = {"model": "m", "input": "hi", "prompt_cache_key": "k"}
    found, warning = sent("responses", "chat", body, takes_cache_key=True)
    assert (found["prompt_cache_key"], warning) == ("k", "")
    found, warning = sent("responses", "chat", body)
    assert ("prompt_cache_key" in found, warning) == (False, "prompt_cache_key")
