"""PostgreSQL frozen: its connections stay open and nobody answers in them (reference 1.6)."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.client import CHAT, HELLO, Client
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.servers import frozen_server
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

REQUESTED = {"max_tokens": 5}
# Every protocol: its path, a body, and the error's place and name in its shape.
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (CHAT, {"model": "sim-model", "messages": [HELLO], **REQUESTED}),
    "messages": ("/v1/messages", {"model": "sim-model", "messages": [HELLO], **REQUESTED}),
    "responses": ("/v1/responses", {"model": "sim-model", "input": "Hello"}),
    "native": (
        "/v1beta/models/sim-model:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    ),
}


def name_of(protocol: str, reply: Response) -> str:
    error = reply.json["error"]
    return str(error[{"messages": "type", "native": "status"}.get(protocol, "code")])


NAMES = {"messages": "overloaded_error", "native": "UNAVAILABLE"}


def check_refused(protocol: str, reply: Response) -> None:
    assert reply.status == 503, reply
    assert int(reply.headers["retry-after"]) >= 1
    assert name_of(protocol, reply) == NAMES.get(protocol, "no_channel_available")


@pytest.fixture
def h(data_dir: Path, tmp_path: Path) -> Iterator[Deployment]:
    protocols = ["chat", "messages", "responses", "native"]
    with deployment(
        "",
        tmp_path,
        data_dir=str(data_dir),
        channels=[channel("one", protocols=protocols)],
        models=[model("sim-model", "one")],
    ) as built:
        yield built


def test_frozen_database_is_reported_everywhere_and_loses_nothing(
    h: Deployment, data_dir: Path
) -> None:
    admin, warm = Admin(h.gateway.admin_url), h.client
    for _ in range(3):  # it calls often: from the second one on it is leased
        assert warm.chat().status == 200
    cold = h.gw("account", "create", "cold", "--credit-usd", "1")["id"]
    client = Client(
        h.gateway.url, h.gw("key", "create", "--account", cold, "--name", "cold")["key"]
    )
    assert client.chat().status == 200  # the key is known from here on
    stranger = h.gw("key", "create", "--account", h.account, "--name", "unseen")["key"]
    h.upstream.fault("one", endless=True, delay_event_ms=20)
    under_way = warm.begin_chat(stream=True)
    under_way.read_until(b"data:")
    h.upstream.reset()
    with ExitStack() as open_calls, frozen_server(data_dir):
        open_calls.enter_context(under_way)
        served = warm.chat()
        assert served.status == 200, served
        # All of this is answered, too, although the database is not.
        unknown = open_calls.enter_context(Client(h.gateway.url, stranger).begin_chat())
        free = open_calls.enter_context(client.begin("GET", "/v1/key/balance"))
        calls = [
            open_calls.enter_context(client.begin("POST", path, body))
            for path, body in CALLS.values()
        ]
        refused = [call.response() for call in calls]
        for protocol, reply in zip(CALLS, refused, strict=True):
            check_refused(protocol, reply)
        check_refused("chat", unknown.response())
        check_refused("chat", free.response())
        until(lambda: admin.get("/readyz").status == 503, what="a word to the load balancer")
        admin.page_when(lambda page: not page.total("gw_database_up"), what="the metric")
        until(
            lambda: any("heartbeat_missed" in line for line in h.gateway.lines),
            what="the line of the log",
        )
        assert admin.get("/healthz").status == 200
        under_way.leave()

    until(lambda: admin.get("/readyz").status == 200, what="the database back")

    def try_again() -> Response | None:
        """The answer to a call; None while the ledger's own connection is still away."""
        reply = client.chat()
        return reply if reply.status == 200 else None

    responded = until(try_again, what="a call that is answered")
    admin.page_when(lambda page: page.total("gw_database_up") == 1, what="the metric")
    # What was granted unseen went back at once; nothing was found later and called a leak.
    until(lambda: h.verify()["counts"]["open_holds"] == 0, what="no hold")
    assert not any("hold_leaked" in line for line in h.gateway.lines)

    def row_of(reply: Response) -> Any:
        """The one row of a call, however many were refused until the database was back."""
        (row,) = client.get(f"/v1/logs?ref={reply.trace}").json["data"]
        return row

    for reply in refused:
        row = row_of(reply)
        assert (row["status"], row["error_code"]) == ("rejected", "no_channel_available")
    assert row_of(responded)["status"] == "success"
    written = {row["request_id"].replace("-", "") for row in warm.get("/v1/logs").json["data"]}
    assert served.trace in written
