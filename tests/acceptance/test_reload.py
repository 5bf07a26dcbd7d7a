"""SIGHUP puts other channels and models in force, or refuses a bad file; `check-config` says which.

The deployment is put back as it was after each test.
"""

import copy
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.scrape import Admin
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until

SETTINGS: dict[str, Any] = {
    "channels": [channel("one", priority=1), channel("two", priority=2)],
    "models": [model("sim-model", "one", "two"), model("passing", "one")],
}
EXPECTED_LOG = ("reload_refused", "configuration_needs_restart", "configuration_caution")


@pytest.fixture(autouse=True)
def as_it_was(h: Deployment) -> Iterator[None]:
    """The configuration of the module, in force again."""
    before = copy.deepcopy(h.settings)
    yield
    h.settings = before
    h.write()
    reload(h)


def reload(h: Deployment, action: str = "configuration_reloaded") -> dict[str, Any]:
    """SIGHUP, and the line that says what came of it."""
    so_far = len(h.events(action))
    h.gateway.popen.send_signal(signal.SIGHUP)
    until(lambda: len(h.events(action)) > so_far, what=action)
    return h.events(action)[-1]


def models_of(client: Client) -> list[str]:
    return [one["id"] for one in client.get("/v1/models").json["data"]]


def test_new_channel_and_model_are_in_force_at_once(h: Deployment, tenant: Tenant) -> None:
    assert tenant.client.chat(model="new").refusal[2] == "model_not_found"
    h.write(
        channels=[*h.settings["channels"], channel("fresh")],
        models=[*h.settings["models"], model("new", "fresh", aliases=["newest"])],
    )
    assert tenant.client.chat(model="new").refusal[2] == "model_not_found"  # nobody has told it
    reload(h)
    assert tenant.client.chat(model="newest").status == 200
    assert h.upstream.requested("fresh") == [1]
    assert models_of(tenant.client) == ["sim-model", "passing", "new"]
    catalog = tenant.client.get("/api/v1/models/public").json["models"]
    assert catalog[-1]["id"] == "new"
    # What a channel says in its errors is masked from the first call on.
    h.upstream.fault("fresh", status=400, message="channel fresh and key-of-fresh say no")
    message = tenant.client.chat(model="new").error["message"]
    assert "fresh" not in message
    assert message.endswith("say no")


def test_prices_names_and_priorities_change(h: Deployment, tenant: Tenant) -> None:
    usage = {"usage": {"input": 100, "output": 10}}
    tenant.client.chat(sim=usage)
    assert tenant.client.remaining_nano_usd() == 10**9 - 100 * 1_000 - 10 * 10_000
    assert h.upstream.requested("one", "two") == [1, 0]
    h.write(
        channels=[channel("one", priority=2), channel("two", priority=1)],
        models=[
            model(
                "sim-model",
                "one",
                {"id": "two", "as": "renamed"},
                price={"input": "2", "output": "20"},
            )
        ],
    )
    reload(h)
    tenant.client.chat(sim=usage)
    assert tenant.client.remaining_nano_usd() == 10**9 - 3 * (100 * 1_000 + 10 * 10_000)
    assert h.upstream.requested("one", "two") == [1, 1]
    assert '"model":"renamed"' in h.upstream.last_request()["body"]
    assert tenant.client.chat(model="passing").refusal[2] == "model_not_found"


def test_bad_file_is_refused_as_a_whole_and_the_old_one_stays(
    h: Deployment, tenant: Tenant
) -> None:
    good = h.config.read_text()
    h.write(
        channels=[*h.settings["channels"], channel("fresh", protocols=["chatt"])],
        models=[model("new", "one"), model("broken", "nowhere", price={"input": "much"})],
    )
    for text in (h.config.read_text(), "channels: [", "nonsense", "", "\n"):
        h.config.write_text(text)
        assert reload(h, "reload_refused")["faults"]
        assert models_of(tenant.client) == ["sim-model", "passing"]
        assert tenant.client.chat().status == 200
    h.config.unlink()
    assert reload(h, "reload_refused")["faults"]
    assert tenant.client.chat().status == 200
    os.mkfifo(h.config)  # secret agents put such a pipe in place: an open would wait for its writer
    assert "not a regular file" in reload(h, "reload_refused")["faults"][0]
    assert Admin(h.gateway.admin_url).page().total("gw_config_last_reload_successful") == 0
    assert tenant.client.chat().status == 200
    h.config.unlink()
    h.config.write_text(good)
    reload(h)
    assert tenant.client.chat().status == 200


def test_stream_in_flight_is_not_touched(h: Deployment, tenant: Tenant) -> None:
    """Its channel, its model and its price are gone when it ends; it ends as it began."""
    sim = {"events": 60, "usage": {"input": 50, "output": 60}}
    with (
        tenant.client.begin_chat(model="passing", stream=True, sim={**sim, "pause": 3}) as stream,
        tenant.client.begin_chat(model="passing", sim={**sim, "pause": "headers"}) as plain,
    ):
        stream.read_until(b'"content":"')
        h.upstream.wait(paused=2)
        h.write(
            channels=[channel("two")],
            models=[model("sim-model", "two", price={"input": "9", "output": "9"})],
        )
        reload(h)
        assert h.upstream.stats("one")["active"] == 2
        assert tenant.client.chat(model="passing").refusal[2] == "model_not_found"
        h.upstream.resume()
        assert stream.read_until(b"data: [DONE]\n\n")
        assert plain.response().status == 200
    assert tenant.client.remaining_nano_usd() == 10**9 - 2 * (50 * 1_000 + 60 * 10_000)
    assert [row["status"] for row in h.rows(tenant) if row["cost_nano_usd"]] == ["success"] * 2
    # The channel comes back with nothing left over from before.
    h.write(channels=[channel("one", max_concurrency=1)], models=[model("sim-model", "one")])
    reload(h)
    assert tenant.client.chat().status == 200


def test_reload_under_load_fails_no_call(h: Deployment, tenant: Tenant) -> None:
    for turn in range(6):
        calls = [tenant.client.begin_chat(stream=turn % 2 == 0) for _ in range(10)]
        others = [f"passing-{turn + n}" for n in range(3)]
        h.write(
            channels=[channel("one", priority=2), *map(channel, others)],
            models=[model("sim-model", "one", *others)],
        )
        h.gateway.popen.send_signal(signal.SIGHUP)
        statuses = [call.response().status for call in calls]
        assert statuses == [200] * 10, (turn, statuses)


def test_gateway_refuses_to_start_on_a_bad_file(h: Deployment) -> None:
    h.write(models=[model("sim-model", "nowhere")])
    done = subprocess.run(
        [sys.executable, "-m", "gw", "serve", "--config", str(h.config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert "models[0].channels[0]" in done.stderr
    assert "Traceback" not in done.stderr
