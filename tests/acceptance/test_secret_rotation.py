"""The secret is changed while clients go on: by the book of `ops/running.md`, step by step."""

from typing import Any

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import SECRET, Deployment, channel, model
from loadtests.rig.processes import CommandFailed
from loadtests.rig.tenants import Tenant

pytestmark = pytest.mark.long

# The deployment of this module.
SETTINGS: dict[str, Any] = {"channels": [channel("one")], "models": [model("sim-model", "one")]}
NEW = "the secret that comes after"


def restart(h: Deployment, **settings: str) -> None:
    """End the gateway, and begin one with these settings."""
    assert h.gateway.terminate() == 0
    h.gateway.close()
    h.write(**settings)
    h.start()


def client_of(h: Deployment, tenant: Tenant) -> Client:
    """The tenant's, at the gateway that runs now."""
    return Client(h.gateway.url, tenant.client.key)


def works(h: Deployment, tenant: Tenant) -> bool:
    """Whether a key is good."""
    return client_of(h, tenant).chat().status == 200


def test_keys_cursors_and_texts_outlive_a_change_of_the_secret(
    h: Deployment, tenant: Tenant
) -> None:
    other = h.another(tenant)
    for _ in range(3):
        assert works(h, tenant)
    h.settled(tenant)
    page = tenant.client.get("/v1/logs?limit=1").json
    cursor = page["next_cursor"]

    restart(h, secret=NEW, previous_secret=SECRET)
    assert works(h, tenant)
    client = client_of(h, tenant)
    older = client.get(f"/v1/logs?limit=1&cursor={cursor}")
    assert older.status == 200
    assert h.gw("key", "reveal", tenant.key_id)["key"] == tenant.client.key
    made = h.gw("key", "create", "--account", tenant.account, "--name", "made in between")

    with client.begin_chat(stream=True, sim={"events": 20, "pause": 3}) as stream:
        stream.read_until(b'"content":"')
        h.upstream.wait(paused=1)
        before = len(h.query("SELECT id FROM keys WHERE sealed IS NOT NULL"))
        assert h.gw("secret", "rotate") == {"rotated": before - 1, "current": 1}
        assert works(h, tenant)
        assert works(h, other)
        h.upstream.resume()
        assert stream.read_until(b"data: [DONE]\n\n")
    assert h.gw("secret", "rotate") == {"rotated": 0, "current": before}

    restart(h, previous_secret="")
    assert works(h, tenant)
    assert works(h, other)
    assert h.gw("key", "reveal", made["id"])["key"] == made["key"]
    assert client_of(h, tenant).get(f"/v1/logs?limit=1&cursor={cursor}").status == 400


def test_rotation_needs_the_previous_secret(h: Deployment) -> None:
    with pytest.raises(CommandFailed, match="no_previous_secret"):
        h.gw("secret", "rotate")
