"""A process with more to do than it can: calls are refused quickly, others served (reference 1.6).

How much it serves under how much load is `loadtests/attacks/overload.py`'s to measure.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from loadtests.rig.client import CHAT, chat_body
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until
from tests.support.aio import run

pytestmark = pytest.mark.long

CLIENTS = 200
SHED_DELAY_MS = 1  # so little that any machine is overloaded by these


@pytest.fixture
def h(database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    with deployment(database_url, tmp_path, usd="1000", shed_delay_ms=SHED_DELAY_MS) as built:
        yield built


async def ask_again_and_again(h: Deployment, seen: Counter[int], traces: set[str]) -> None:
    """One client on one connection, until somebody has been refused."""
    parts = urlsplit(h.gateway.url)
    body = json.dumps(chat_body()).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {h.key}\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        while not seen[503]:
            writer.write(request)
            response = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            headers = dict(line.split(": ", 1) for line in response.split("\r\n")[1:-2])
            result = json.loads(await reader.readexactly(int(headers["content-length"])))
            status = int(response[9:12])
            seen[status] += 1
            if status == 503:
                assert headers["retry-after"] == "1"
                assert result["error"]["code"] == "no_channel_available"
                traces.add(headers["x-gateway-trace"])
            else:
                assert status == 200, result
    finally:
        writer.close()


def test_overloaded_process_refuses_some_and_serves_again(h: Deployment) -> None:
    admin = Admin(h.gateway.admin_url)
    seen: Counter[int] = Counter()
    refused: set[str] = set()

    async def main() -> None:
        async with asyncio.TaskGroup() as clients:
            for _ in range(CLIENTS):
                clients.create_task(ask_again_and_again(h, seen, refused))

    h.fund()
    run(main())
    assert seen[503]
    assert seen[200]
    page = admin.page()
    assert page.total("gw_calls_shed_total") == seen[503]
    until(lambda: admin.page().total("gw_overloaded") == 0, what="the end of the overload")
    assert h.client.chat().status == 200
    until(
        lambda: h.query("SELECT count(*) AS n FROM call_logs")[0]["n"] == seen[200] + 1,
        what="a row for each that was served",
    )
    # The others were refused before anybody knew whose they are.
    rows = h.query("SELECT request_id::text AS id FROM call_logs")
    assert not refused & {row["id"].replace("-", "") for row in rows}
    until(lambda: h.events("overload_began"), what="a line of its beginning")
    until(lambda: h.events("overload_ended"), what="a line of its end")
