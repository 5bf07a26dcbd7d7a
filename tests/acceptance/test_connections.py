"""Client connections over which one call follows another, and old ones that know one call each."""

from loadtests.rig.client import CHAT, Body, chat_body
from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant


def test_kept_connection_survives_whatever_ends_well(h: Deployment, tenant: Tenant) -> None:
    """Errors and refusals: none of them costs the connection; a stream that is cut does."""
    client = tenant.client.kept()
    assert client.connection is not None

    def ask(method: str, path: str, body: Body = None, **headers: str) -> int:
        return client.send(method, path, body, headers=headers).status

    with client.connection as connection:
        local = connection.opened.getsockname()
        statuses = [
            ask("POST", CHAT, chat_body()),
            ask("POST", CHAT, chat_body(stream=True)),
            ask("GET", "/v1/models"),
            ask("POST", CHAT, b"no JSON"),
            ask("POST", CHAT, chat_body(model="nothing")),
            ask("POST", CHAT, chat_body(), Authorization="Bearer junk"),
            ask("GET", CHAT),
            ask("GET", "/nowhere"),
            ask("POST", CHAT, chat_body(sim={"status": 429})),
            ask("POST", CHAT, chat_body(stream=True, sim={"status": 500})),
            ask("POST", CHAT, chat_body(stream=True)),
        ]
        assert statuses == [200, 200, 200, 400, 400, 401, 405, 404, 429, 500, 200]
        assert connection.opened.getsockname() == local  # it has never been made anew


def test_upstream_that_was_restarted_is_called_without_a_failure(
    h: Deployment, tenant: Tenant
) -> None:
    """The connections that were kept to it are gone, which is noticed before one is used."""
    calls = [tenant.client.begin_chat(sim={"delay_headers_ms": 50}) for _ in range(5)]
    assert [call.response().status for call in calls] == [200] * 5
    h.restart_upstream()
    calls = [tenant.client.begin_chat() for _ in range(5)]
    assert [call.response().status for call in calls] == [200] * 5
    assert h.upstream.requested("one", "two") == [5, 0]
