"""The responses protocol over a WebSocket: the official library's client, and a plain one."""

import json
import signal
from collections.abc import Iterator
from functools import partial
from socket import SHUT_WR
from typing import Any

import pytest
from openai import OpenAI
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until
from tests.acceptance.translated import USAGE

SETTINGS: dict[str, Any] = {
    "channels": [
        channel("first", protocols=["responses"], priority=1),
        channel("second", protocols=["responses"], priority=2),
    ],
    "models": [
        model("codex", "first", "second", aliases=["codex-latest"]),
        model("other", "first"),
    ],
}
COST_NANO_USD = 1_640_000  # of USAGE
HELLO = [{"role": "user", "content": "Hello"}]
SAY = {"type": "response.create", "model": "codex", "input": HELLO, "instructions": "Be brief."}


def open_socket(h: Deployment, key: str, **headers: str) -> ClientConnection:
    url = h.gateway.url.replace("http://", "ws://") + "/v1/responses"
    given = {"Authorization": f"Bearer {key}", **headers}
    return connect(
        url,
        additional_headers=given,
        open_timeout=PATIENCE_SECONDS,
        close_timeout=PATIENCE_SECONDS,
        proxy=None,
    )


@pytest.fixture
def socket(h: Deployment, tenant: Tenant) -> Iterator[ClientConnection]:
    with open_socket(h, tenant.key) as opened:
        yield opened


def turn(socket: ClientConnection, message: Any) -> list[dict[str, Any]]:
    """The events of one call, to the one that ends it."""
    socket.send(message if isinstance(message, str) else json.dumps(message))
    events: list[dict[str, Any]] = []
    while True:
        event = json.loads(socket.recv(timeout=PATIENCE_SECONDS))
        events.append(event)
        if event["type"] in (
            "response.completed",
            "response.incomplete",
            "response.failed",
            "error",
        ):
            return events


def _has_left(tenant: Tenant, nano_usd: int) -> bool:
    return tenant.client.remaining_nano_usd() == nano_usd


def rest_of(socket: ClientConnection) -> list[str]:
    """What comes until the socket is closed."""
    kinds: list[str] = []
    try:
        while True:
            kinds.append(json.loads(socket.recv(timeout=PATIENCE_SECONDS))["type"])
    except ConnectionClosed:
        return kinds


# The library opens its connection as the one below it advises against since its release.
@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
def test_official_client_runs_turns_that_are_billed_one_by_one(
    h: Deployment, tenant: Tenant
) -> None:
    h.upstream.fault("first", text="Grüße", usage=USAGE)
    with (
        OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key) as sdk,
        sdk.responses.connect() as connection,
    ):
        for number in (1, 2):
            connection.response.create(model="codex", input="Hello")
            kinds = []
            for event in connection:
                kinds.append(event.type)
                assert event.type != "error", event
                if event.type == "response.completed":
                    assert event.response.output_text == "Grüße"
                    break
            assert kinds[0] == "response.created"
            left = 10**9 - number * COST_NANO_USD
            until(partial(_has_left, tenant, left), what="settled")
    rows = tenant.client.get("/v1/logs").json["data"]
    assert [(row["model"], row["status"]) for row in rows] == [("codex", "success")] * 2
    assert len({row["request_id"] for row in rows}) == 2


def test_a_turn_continues_the_last_one_with_what_went_in_and_came_out(
    h: Deployment, socket: ClientConnection
) -> None:
    h.upstream.fault("first", text="One")
    first = turn(socket, SAY)[-1]["response"]
    socket.send(json.dumps({"type": "response.processed", "response_id": first["id"]}))
    more = [{"role": "user", "content": "And?"}]
    second = turn(socket, {**SAY, "input": more, "previous_response_id": first["id"]})
    assert second[-1]["type"] == "response.completed"
    body = h.upstream.last_body()
    assert body["input"][0] == HELLO[0]
    assert body["input"][1]["content"][0]["text"] == "One"
    assert body["input"][2] == more[0]
    assert "previous_response_id" not in body
    assert "type" not in body
    assert body["stream"] is True
    gone = turn(socket, {**SAY, "previous_response_id": first["id"]})
    assert [(one["type"], one["status"]) for one in gone] == [("error", 400)]
    assert gone[0]["error"]["code"] == "previous_response_not_found"
    assert turn(socket, SAY)[-1]["type"] == "response.completed"


def test_a_turn_that_was_cut_is_continued_with_what_came_of_it(
    h: Deployment, socket: ClientConnection
) -> None:
    h.upstream.fault("first", text="One and", finish_reason="length")
    first = turn(socket, SAY)[-1]
    assert first["type"] == "response.incomplete"
    more = {**SAY, "input": "Go on", "previous_response_id": first["response"]["id"]}
    assert turn(socket, more)[-1]["type"] == "response.incomplete"
    before, cut, after = h.upstream.last_body()["input"]
    assert before == HELLO[0]
    assert cut["content"][0]["text"] == "One and"
    assert after["content"] == "Go on"


def test_an_account_without_money_has_no_message_received(h: Deployment) -> None:
    poor = h.tenant(nano_usd=0)
    large = json.dumps({**SAY, "input": "x" * 15_000_000})
    with open_socket(h, poor.key) as opened:
        for message in (SAY, {**SAY, "generate": False}, large, SAY):
            (error,) = turn(opened, message)
            assert (error["status"], error["error"]["code"]) == (402, "quota_exceeded")


def test_every_call_is_checked_by_itself(h: Deployment, tenant: Tenant) -> None:
    poor = h.tenant(nano_usd=0)
    with open_socket(h, poor.key) as opened:
        assert turn(opened, SAY)[0]["error"]["code"] == "quota_exceeded"
    narrow = h.another(tenant, allowed_models=["other"])
    with open_socket(h, narrow.key) as opened:
        assert turn(opened, SAY)[0]["error"]["code"] == "model_not_allowed"
    limited = h.tenant(rpm=2)
    with open_socket(h, limited.key) as opened:  # which is the first of the two
        assert turn(opened, SAY)[-1]["type"] == "response.completed"
        (error,) = turn(opened, SAY)
        assert (error["status"], error["error"]["code"]) == (429, "rate_limit_exceeded")
        assert int(error["headers"]["retry-after"]) > 0


def test_a_client_that_leaves_ends_its_call(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("first", endless=True)
    with open_socket(h, tenant.key) as opened:
        opened.send(json.dumps(SAY))
        opened.recv(timeout=PATIENCE_SECONDS)
        # Only the side that writes: the library's thread reads on until the gateway closes.
        opened.socket.shutdown(SHUT_WR)
        assert "response.completed" not in rest_of(opened)
        assert opened.protocol.close_rcvd is None  # there is nobody to say goodbye to
    h.upstream.wait(cancelled=1, active=0)
    until(
        lambda: (
            [r["status"] for r in tenant.client.get("/v1/logs").json["data"]] == ["interrupted"]
        ),
        what="row",
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Authorization": "Bearer sk-platform-no"}, 401),
        ({"Sec-WebSocket-Version": "8"}, 426),
        ({"Connection": "close", "Upgrade": ""}, 426),
    ],
)
def test_a_hand_shake_is_refused_over_http(
    h: Deployment, tenant: Tenant, headers: dict[str, str], status: int
) -> None:
    given = {
        "Authorization": f"Bearer {tenant.key}",
        "Connection": "keep-alive, Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
    }
    assert tenant.client.send("GET", "/v1/responses", headers={**given, **headers}).status == status
    assert tenant.client.get("/v1/responses").status == 405
    with pytest.raises(InvalidStatus):
        open_socket(h, "sk-platform-no")


def test_messages_are_text_and_bounded(socket: ClientConnection) -> None:
    socket.send(b"binary")
    with pytest.raises(ConnectionClosed) as closed:
        socket.recv(timeout=PATIENCE_SECONDS)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1003


def test_a_drain_ends_the_turn_and_then_the_socket(h: Deployment, tenant: Tenant) -> None:
    h.upstream.fault("first", text="abc", chars_per_event=1, delay_event_ms=100)
    with open_socket(h, tenant.key) as idle, open_socket(h, tenant.key) as opened:
        opened.send(json.dumps(SAY))
        opened.recv(timeout=PATIENCE_SECONDS)
        h.gateway.popen.send_signal(signal.SIGTERM)
        assert rest_of(opened)[-1] == "response.completed"
        assert rest_of(idle) == []
        for one in (opened, idle):
            assert one.protocol.close_rcvd is not None
            assert one.protocol.close_rcvd.code == 1012
    assert h.gateway.wait() == 0
    h.start()
