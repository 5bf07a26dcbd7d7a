"""The admin listener."""

from __future__ import annotations

import gzip
import uuid
from typing import Any

import pytest
import ujson
from tornado.httpclient import AsyncHTTPClient, HTTPResponse
from tornado.web import Application

from gw.http.admin import make_admin_application
from tests.unit.api.fakes import FakeMetrics
from tests.unit.config.reading import read


class Probe:
    """Why the process is not ready, if it is not."""

    why_not: str | None = None


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
def app(probe: Probe) -> Application:
    async def render(accept: str) -> tuple[bytes, str]:
        return FakeMetrics().render(accept)

    async def readiness() -> str | None:
        return probe.why_not

    config = read("admin_listen: gw1.example.com:0\nadmin_hosts: [Metrics.Example.com]")
    return make_admin_application(config, render=render, readiness=readiness, new_id=uuid.uuid4)


async def get(client: AsyncHTTPClient, url: str, **options: Any) -> HTTPResponse:
    response = await client.fetch(url, raise_error=False, **options)
    assert len(response.headers["x-gateway-trace"]) == 32
    assert "Server" not in response.headers
    return response


@pytest.mark.gen_test
async def test_metrics_come_in_the_format_that_is_asked_for(
    http_client: AsyncHTTPClient, base_url: str
) -> None:
    response = await get(http_client, f"{base_url}/metrics", headers={"Accept": "text/x"})
    assert response.code == 200
    assert response.body == b"# accept=text/x\n"
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.gen_test
async def test_a_process_that_drains_is_alive_but_not_ready(
    http_client: AsyncHTTPClient, base_url: str, probe: Probe
) -> None:
    ready = await get(http_client, f"{base_url}/readyz")
    assert (ready.code, ujson.loads(ready.body)) == (200, {"status": "ok"})
    probe.why_not = "draining"
    ready = await get(http_client, f"{base_url}/readyz")
    assert (ready.code, ujson.loads(ready.body)) == (503, {"status": "draining"})
    assert ready.headers["Retry-After"] == "1"
    assert (await get(http_client, f"{base_url}/healthz")).code == 200


@pytest.mark.gen_test
async def test_probes_may_ask_with_head(http_client: AsyncHTTPClient, base_url: str) -> None:
    for path in ("/healthz", "/readyz"):
        response = await get(http_client, f"{base_url}{path}", method="HEAD")
        assert (response.code, response.body) == (200, b"")


@pytest.mark.gen_test
async def test_metrics_are_not_for_a_page_under_a_public_name(
    http_client: AsyncHTTPClient, base_url: str
) -> None:
    for host, status in (
        ("10.0.0.7:9090", 200),
        ("[fd00::7]:9090", 200),
        ("localhost", 200),
        ("gateway:9090", 200),
        ("gateway-admin.model-gateway.svc.cluster.local:9090", 200),
        ("gateway-admin.model-gateway.svc", 200),
        ("GW1.example.com.:9090", 200),
        ("metrics.example.com", 200),
        ("example.com", 421),
        ("rebound.example.com:9090", 421),
        ("local.example.com", 421),
        ("10.0.0.7.example.com", 421),
    ):
        headers = {"Host": host}
        response = await get(http_client, f"{base_url}/metrics", headers=headers)
        assert (response.code, b"accept" in response.body) == (status, status == 200), host
        for probe in ("/healthz", "/readyz"):
            assert (await get(http_client, f"{base_url}{probe}", headers=headers)).code == 200


@pytest.mark.gen_test
async def test_anything_else_is_not_there(http_client: AsyncHTTPClient, base_url: str) -> None:
    assert (await get(http_client, f"{base_url}/v1/models")).code == 404
    response = await get(http_client, f"{base_url}/metrics", method="POST", body=b"")
    assert response.code == 405
    assert ujson.loads(response.body)["error"]["code"] == 405


@pytest.mark.gen_test
@pytest.mark.parametrize(
    ("accepted", "is_packed"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("identity", False),
        ("xgzip", False),
        ("", False),
    ],
)
async def test_metrics_are_packed_for_who_takes_it(
    http_client: AsyncHTTPClient, base_url: str, accepted: str, is_packed: bool
) -> None:
    response = await get(
        http_client,
        f"{base_url}/metrics",
        headers={"Accept": "text/x", "Accept-Encoding": accepted},
        decompress_response=False,
    )
    assert response.headers["Vary"] == "Accept, Accept-Encoding"
    assert response.headers.get("Content-Encoding") == ("gzip" if is_packed else None)
    body = gzip.decompress(response.body) if is_packed else response.body
    assert body == b"# accept=text/x\n"
