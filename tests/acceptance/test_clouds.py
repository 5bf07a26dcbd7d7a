"""Claude and gemini behind Bedrock and Vertex AI, Azure with a token: calls as clients make them.

The simulator checks every signature and every token by itself.
"""

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loadtests.rig.client import CHAT, HELLO, fetch
from loadtests.rig.deployment import PRICE, Deployment, channel, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.support.rows import each

pytestmark = pytest.mark.long

USAGE = {"input": 1000, "output": 100, "cached": 400}
# 600 fresh x 1 + 400 cached x 0.1 + 100 out x 10 USD per million.
COST_NANO_USD = 1_640_000
LENT = {
    "access_key_id": "ASIASIM",
    "secret_access_key": "secret-of-ASIASIM",
    "session_token": "token-of-ASIASIM",
}
PROFILE = "us.anthropic.claude-sim-v1:0"
NOVA = "us.amazon.nova-sim-v1:0"
HOSTED = ("claude-signed", "claude-keyed", "claude-vertex", "nova-signed", "nova-keyed")
# Of these, those to which requests go as the client's own bytes.
VERBATIM = HOSTED[:3]


def cloud(channel_id: str, **more: Any) -> dict[str, Any]:
    """A channel whose kind says what it speaks and how."""
    return {"id": channel_id, "health": {"failures": 1000}, **more}


def channels(simulator_url: str) -> list[dict[str, Any]]:
    bedrock = {"kind": "bedrock", "region": "us-east-1"}
    azure = {"tenant_id": "tenant-1", "authority": simulator_url}
    return [
        cloud("bedrock-signed", **bedrock, credentials=LENT),
        cloud("bedrock-keyed", **bedrock, api_key="key-of-bedrock-keyed"),
        cloud("bedrock-wrong", **bedrock, credentials={**LENT, "secret_access_key": "hidden-1"}),
        cloud(
            "vertex-sim",
            kind="vertex",
            project="sim-project",
            region="us-east5",
            credentials={"file": "key.json"},
        ),
        cloud(
            "azure-sim",
            kind="azure-openai",
            auth="azure-ad",
            credentials={**azure, "client_id": "app", "client_secret": "secret-of-app"},
        ),
        cloud(
            "azure-unknown",
            kind="azure-openai",
            auth="azure-ad",
            credentials={**azure, "client_id": "another", "client_secret": "hidden-2"},
        ),
        channel("plain-claude", protocols=["messages"], priority=2),
        channel("plain-chat", priority=2),
    ]


MODELS = [
    model("claude-signed", {"id": "bedrock-signed", "as": PROFILE}),
    model("claude-keyed", {"id": "bedrock-keyed", "as": "arn:aws:bedrock:x:1:p/claude-1"}),
    model(
        "claude-tiered",
        {"id": "bedrock-signed", "as": PROFILE},
        price={**PRICE, "service_tiers": {"priority": {"factor": "2"}}},
    ),
    model("claude-vertex", {"id": "vertex-sim", "as": "claude-sim@20250929"}),
    model("nova-signed", {"id": "bedrock-signed", "as": NOVA}),
    model("nova-keyed", {"id": "bedrock-keyed", "as": NOVA}),
    model("claude-wrong", {"id": "bedrock-wrong", "as": PROFILE}),
    model("claude-both", {"id": "bedrock-keyed", "as": PROFILE}, "plain-claude"),
    model("gemini-vertex", "vertex-sim"),
    model("gpt-azure", "azure-sim"),
    model("gpt-both", "azure-unknown", "plain-chat"),
    model("gpt-alone", "azure-unknown"),
]
TRANSLATIONS = [
    *("chat_to_messages", "chat_to_native", "native_to_messages", "messages_to_chat"),
    "responses_to_messages",
]


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests) -> Iterator[Deployment]:
    """A deployment whose channels are known once the simulator is, whose key file is among them."""
    with shared_deployment(postgres, translations=TRANSLATIONS) as built:
        key = fetch(f"{built.simulator.url}/_sim/google-key").body
        (built.config.parent / "key.json").write_bytes(key)
        built.write(channels=channels(built.simulator.url), models=MODELS)
        built.gateway.popen.send_signal(signal.SIGHUP)
        until(lambda: built.events("configuration_reloaded"), what="the channels")
        yield built


def hello(**directive: Any) -> dict[str, str]:
    return {"role": "user", "content": f"Hello [[sim {json.dumps(directive)}]]"}


def messages(tenant: Tenant, model_id: str, stream: bool = False, **directive: Any) -> Response:
    message = [hello(**directive)]
    body = {"model": model_id, "max_tokens": 100, "stream": stream, "messages": message}
    return tenant.client.send("POST", "/v1/messages", body)


def text_of(reply: Response) -> str:
    """What a message says, streamed or not."""
    if "event-stream" not in reply.headers["content-type"]:
        return "".join(block["text"] for block in reply.json["content"])
    events = map(json.loads, reply.events)
    return "".join(event["delta"].get("text", "") for event in events if "delta" in event)


@each("stream", [False, True])
@each("model_id", HOSTED)
def test_claude_is_served_and_charged_wherever_it_is_hosted(
    h: Deployment, tenant: Tenant, model_id: str, stream: bool
) -> None:
    reply = messages(tenant, model_id, stream, usage=USAGE, text="Guten Tag, Zürich")
    assert (reply.status, text_of(reply)) == (200, "Guten Tag, Zürich")
    if stream:
        assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert json.loads(reply.events[-1])["type"] == "message_stop"
    row = h.row(reply.trace)
    assert (row["status"], row["protocol"], row["cost_nano_usd"]) == (
        "success",
        "messages",
        COST_NANO_USD,
    )
    sent = h.upstream.last_request()
    assert tenant.key not in json.dumps(sent)
    assert not {"model", "thread"} & json.loads(sent["body"]).keys()
    action = sent["path"].rpartition("/")[2].rpartition(":")[2]
    actions = {
        "claude-vertex": ("rawPredict", "streamRawPredict"),
        "claude": ("invoke", "invoke-with-response-stream"),
        "nova": ("converse", "converse-stream"),
    }
    assert action == actions.get(model_id, actions.get(model_id.partition("-")[0], ()))[stream]


@each("stream", [False, True])
@each("served, times", [("priority", 2), ("default", 1)])
@each("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_a_tier_is_requested_of_bedrock_in_a_header_and_the_one_that_it_states_is_charged(
    h: Deployment, tenant: Tenant, path: str, served: str, times: int, stream: bool
) -> None:
    message = [hello(usage=USAGE, headers={"X-Amzn-Bedrock-Service-Tier": served})]
    members: Any = {"max_tokens": 100, "messages": message}
    if path == "/v1/responses":
        members = {"max_output_tokens": 100, "input": message}
    body = {"model": "claude-tiered", "stream": stream, **members}
    reply = tenant.client.send("POST", path, {**body, "service_tier": "priority"})
    assert (reply.status, reply.headers.get("x-protocol-warning")) == (200, None), reply
    sent = h.upstream.last_request()
    assert sent["headers"]["x-amzn-bedrock-service-tier"] == "priority"
    assert "service_tier" not in json.loads(sent["body"])
    assert h.row(reply.trace)["cost_nano_usd"] == times * COST_NANO_USD


def test_model_is_in_the_path_and_betas_where_the_host_wants_them(
    h: Deployment, tenant: Tenant
) -> None:
    betas = {"anthropic-beta": "context-1m-2025-08-07, interleaved-thinking-2025-05-14"}
    body = {"max_tokens": 50, "messages": [HELLO], "metadata": {"user_id": "u-1"}}
    sent = {}
    for model_id in VERBATIM:
        reply = tenant.client.send(
            "POST", "/v1/messages", {"model": model_id, **body}, headers=betas
        )
        assert reply.status == 200, reply
        sent[model_id] = h.upstream.last_request()
    signed = sent["claude-signed"]
    assert signed["path"] == "/model/us.anthropic.claude-sim-v1%3A0/invoke"
    assert json.loads(signed["body"]) == {
        **body,
        "anthropic_version": "bedrock-2023-05-31",
        "anthropic_beta": betas["anthropic-beta"].split(", "),
    }
    assert signed["headers"]["authorization"].startswith("AWS4-HMAC-SHA256 Credential=ASIASIM/")
    assert not {"anthropic-beta", "anthropic-version", "x-api-key"} & signed["headers"].keys()
    keyed = sent["claude-keyed"]
    assert keyed["headers"]["authorization"] == "Bearer key-of-bedrock-keyed"
    assert keyed["path"] == "/model/arn%3Aaws%3Abedrock%3Ax%3A1%3Ap%2Fclaude-1/invoke"
    vertex = sent["claude-vertex"]
    assert vertex["path"] == (
        "/v1/projects/sim-project/locations/us-east5/publishers/anthropic/models/"
        "claude-sim@20250929:rawPredict"
    )
    assert json.loads(vertex["body"]) == {**body, "anthropic_version": "vertex-2023-10-16"}
    assert vertex["headers"]["anthropic-beta"] == betas["anthropic-beta"]
    assert vertex["headers"]["authorization"].startswith("Bearer ya29.sim-")


@each("stream", [False, True])
@each("model_id", [*HOSTED, "gemini-vertex", "gpt-azure"])
def test_chat_reaches_all_of_them(
    h: Deployment, tenant: Tenant, model_id: str, stream: bool
) -> None:
    body = {"model": model_id, "stream": stream, "messages": [hello(usage=USAGE, text="Tag")]}
    reply = tenant.client.send("POST", CHAT, body)
    assert reply.status == 200, reply
    message = reply.text if stream else reply.json["choices"][0]["message"]["content"]
    assert message == "Tag"
    assert h.row(reply.trace)["cost_nano_usd"] == COST_NANO_USD


def test_gemini_on_vertex_is_spoken_to_in_its_own_words(h: Deployment, tenant: Tenant) -> None:
    parts = {"contents": [{"role": "user", "parts": [{"text": hello(usage=USAGE)["content"]}]}]}
    for action in ("generateContent", "streamGenerateContent?alt=sse"):
        path = f"/v1beta/models/gemini-vertex:{action}"
        reply = tenant.client.send("POST", path, parts)
        assert reply.status == 200, reply
        assert h.upstream.last_request()["path"] == (
            "/v1/projects/sim-project/locations/us-east5/publishers/google/models/"
            f"gemini-vertex:{action.partition('?')[0]}"
        )
        assert h.row(reply.trace)["cost_nano_usd"] == COST_NANO_USD


def test_exception_within_a_stream_is_an_error_event_and_what_came_is_charged(
    h: Deployment, tenant: Tenant
) -> None:
    words = "throttlingException: Too many tokens"
    reply = messages(tenant, "claude-signed", True, text="x" * 400, error_event=20, message=words)
    assert reply.status == 200
    last = json.loads(reply.events[-1])
    assert last["error"] == {"type": "rate_limit_error", "message": "Too many tokens"}
    row = h.row(reply.trace)
    assert row["status"] == "error"
    assert row["cost_nano_usd"] > 0


def test_exception_before_anything_was_sent_is_another_channels_call(
    h: Deployment, tenant: Tenant
) -> None:
    words = "serviceUnavailableException: Bedrock is busy"
    # The other channel has the same host here: it is not to take a connection that is closed.
    closes = {"Connection": "close"}
    h.upstream.fault("bedrock-keyed", error_event=0, message=words, headers=closes)
    reply = messages(tenant, "claude-both", True, text="Hello")
    assert [one["protocol"] for one in h.upstream.requests(2)] == ["bedrock-invoke", "messages"]
    assert (reply.status, text_of(reply), len(h.row(reply.trace)["attempts"])) == (200, "Hello", 1)
    alone = messages(tenant, "claude-keyed", True)
    assert (alone.status, alone.json["error"]["message"]) == (502, "Bedrock is busy")
    assert h.row(alone.trace)["cost_nano_usd"] == 0


def test_refusals_pass_with_their_words_and_nothing_secret(h: Deployment, tenant: Tenant) -> None:
    throttled = messages(tenant, "claude-signed", status=429, message="Too many requests")
    assert (throttled.status, throttled.json["error"]) == (
        429,
        {"type": "rate_limit_error", "message": "Too many requests"},
    )
    wrong = messages(tenant, "claude-wrong")
    assert wrong.status == 403
    message = wrong.body.decode()
    assert "does not match" in message
    for secret in ("token-of-ASIASIM", "hidden-1", "ASIASIM", h.simulator.url.partition("://")[2]):
        assert secret not in message
    quota = messages(tenant, "claude-vertex", status=429, message="Quota exceeded")
    assert (quota.status, quota.json["error"]["message"]) == (429, "Quota exceeded")


def test_channel_without_credentials_is_logged_and_another_is_tried(
    h: Deployment, tenant: Tenant
) -> None:
    body = {"model": "gpt-both", "messages": [HELLO]}
    reply = tenant.client.send("POST", CHAT, body)
    assert reply.status == 200
    assert len(h.row(reply.trace)["attempts"]) == 1
    (result, *_) = until(
        lambda: h.events("credentials_unavailable", channel="azure-unknown"), what="a line of it"
    )
    assert "AADSTS7000215" in result["reason"]
    assert "hidden-2" not in str(result)
    alone = tenant.client.send("POST", CHAT, {**body, "model": "gpt-alone"})
    assert alone.refusal == (502, "api_error", "upstream_unreachable")
    assert "AADSTS" not in alone.body.decode()
    assert h.held_nano_usd(tenant) == 0


def test_probe_asks_each_for_its_models(h: Deployment, expect_log: Callable[..., None]) -> None:
    expect_log("credentials_unavailable")
    with pytest.raises(CommandFailed) as raised:  # some are made not to be good
        h.gw("check-config", "--probe")
    probes = {one["channel"]: one for one in raised.value.answer["probes"]}
    for channel_id, listed in (("bedrock-signed", 1), ("bedrock-keyed", 1), ("vertex-sim", 1)):
        assert probes[channel_id]["ok"], probes[channel_id]
        assert probes[channel_id]["models"] == listed
    assert probes["bedrock-wrong"]["status"] == 403
    assert "AADSTS7000215" in probes["azure-unknown"]["message"]
    assert "of-ASIASIM" not in json.dumps(probes)
