"""Images that do not come: upstream errors, failover, clients that leave, no money, kill -9."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.acceptance import pictures
from tests.acceptance.pictures import EACH, begin, generate, refusal
from tests.support.client import NANO_PER_USD, Reply
from tests.support.house import House, house
from tests.support.rows import each
from tests.support.tenants import Tenant
from tests.support.waiting import until

SETTINGS = pictures.SETTINGS
ODD = '{"error" : {"message":"Size must be at least 1920x1920","code":"InvalidParameter"}}'


@each("status", [400, 401, 403, 404, 422, 429])
def test_refusal_passes_with_its_status_and_body(h: House, status: int) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = generate(tenant.client, sim={"status": status, "body": ODD})
    assert (reply.status, reply.body) == (status, ODD.encode())
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"], row["unit_count"]) == ("error", 0, 0)
    assert row["error_message"] == "Size must be at least 1920x1920"
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD
    # An answered call has the key in use again that 401 and 403 set aside.
    assert generate(h.tenant().client, model="renamed").status == 200


@each("fault", [{"status": 500}, {"refuse": True}])
def test_next_channel_is_tried_and_the_row_is_one(h: House, fault: dict[str, object]) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **fault)
    h.upstream.fault("two", **fault)
    reply = generate(tenant.client, n=2)
    assert reply.status == 200
    row = h.row(reply.trace)
    assert (row["cost_nano_usd"], len(row["attempts"])) == (2 * EACH, 2)
    assert len(h.rows(tenant)) == 1
    assert [tried[0] for tried in row["detail"]["tried"]] == ["one", "two", "three"]


@each(
    "fault",
    [
        {"malformed": "json"},
        {"malformed": "html"},
        {"body": ""},
        {"cut_after_bytes": 20},
        {"status": 204},
        {"status": 302, "headers": {"Location": "http://elsewhere.example/"}},
    ],
)
def test_answer_that_cannot_be_used_is_made_once_and_paid_by_nobody(
    h: House, fault: dict[str, object]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **fault)
    reply = generate(tenant.client, n=2)
    assert refusal(reply) == (502, "api_error", "upstream_error", None)
    assert "location" not in reply.headers
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "error",
        "upstream_error",
        0,
    )
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_last_server_error_passes_with_its_status_and_body(h: House, tenant: Tenant) -> None:
    for name in ("one", "two", "three"):
        h.upstream.fault(name, status=529, body=f"{ODD} {name}", headers={"X-Up": "1"})
    reply = generate(tenant.client)
    assert (reply.status, reply.body) == (529, f"{ODD} three".encode())
    assert "x-up" not in reply.headers
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"], row["cost_nano_usd"]) == (
        "error",
        "upstream_error",
        0,
    )
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_nobody_there_is_502(h: House, tenant: Tenant) -> None:
    h.upstream.fault(refuse=True)
    reply = generate(tenant.client)
    assert refusal(reply) == (502, "api_error", "upstream_unreachable", None)
    assert h.upstream.requested("one", "two", "three") == [1, 1, 1]


def test_client_that_leaves_cancels_the_upstream_and_pays_nothing(h: House, tenant: Tenant) -> None:
    call = begin(tenant.client, model="hanging", sim={"hang": "headers"})
    h.upstream.wait(channel="quiet", active=1)
    until(lambda: h.held_nano_usd(tenant) == EACH, what="its hold written")
    call.leave()
    h.upstream.wait(cancelled=1, active=0)
    (row,) = until(lambda: h.rows(tenant), what="the row")
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    assert (row["cost_nano_usd"], row["unit_type"], row["unit_count"]) == (0, "image", 0)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_balance_for_so_many_images_admits_exactly_so_many(h: House) -> None:
    """Twenty at once, each for two images, with money for seven of them."""
    tenant = h.tenant(nano_usd=7 * 2 * EACH + EACH)

    def one(_: int) -> Reply:
        return generate(tenant.client, n=2, sim={"pause": "headers"})

    with ThreadPoolExecutor(20) as pool:
        replies = [pool.submit(one, number) for number in range(20)]
        until(lambda: sum(reply.done() for reply in replies) == 13, what="13 refusals")
        h.upstream.wait(paused=7)
        h.upstream.resume()
    statuses = [reply.result().status for reply in replies]
    assert sorted(statuses) == [200] * 7 + [402] * 13
    assert tenant.client.remaining_nano_usd() == EACH
    assert h.upstream.stats()["requests"] == 7
    assert h.verify()["ok"]


def test_killed_process_leaves_no_hold_and_charges_nothing(
    database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, **pictures.SETTINGS) as h:
        tenant = h.tenant()
        sim = {"hang": "headers"}
        calls = [begin(tenant.client, model="hanging", n=3, sim=sim) for _ in range(4)]
        h.upstream.wait(channel="quiet", active=4)
        until(lambda: h.held_nano_usd(tenant) == 4 * 3 * EACH, what="their holds written")
        h.gateway.kill()
        for call in calls:
            call.leave()
        h.gateway.close()
        h.start()
        until(lambda: len(h.rows(tenant)) == 4, what="the rows")
        for row in h.rows(tenant):
            assert (row["status"], row["error_code"]) == ("interrupted", "gateway_restarted")
            assert (row["unit_type"], row["unit_count"], row["cost_nano_usd"]) == ("image", 0, 0)
        assert h.held_nano_usd(tenant) == 0
        assert h.balance_nano_usd(tenant) == NANO_PER_USD
        assert h.verify()["counts"]["open_holds"] == 0
