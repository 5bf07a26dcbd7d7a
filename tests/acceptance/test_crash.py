"""kill -9 and SIGTERM: each call has its row, no hold stays open."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.async_connection import chat
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.response import Response
from loadtests.rig.transactions import transaction
from tests.acceptance.common import DIMENSIONS
from tests.support.aio import eventually, run

STREAMS = 50
# Slow enough to be in the middle for as long as the test needs, of a length nobody waits for.
ENDLESS = {"endless": True, "delay_event_ms": 50}


def rows(database_url: str, query: str) -> list[tuple[Any, ...]]:
    with transaction(database_url) as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


def delivered_holds(database_url: str) -> int:
    (found,) = rows(database_url, "SELECT count(*) FROM holds WHERE delivered IS NOT NULL")
    return int(found[0])


def _characters(seen: Response) -> int:
    """Of the content of the events that came whole."""
    events = [line[6:] for line in seen.body.split(b"\n\n")[:-1] if line.startswith(b"data: {")]
    deltas = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    assert deltas
    return sum(len(delta.get("content") or "") for delta in deltas)


def test_killed_process_leaves_no_call_unsettled(database_url: str, tmp_path: Path) -> None:
    async def main(h: Deployment) -> None:
        endless = [chat(h.gateway.url, h.key, stream=True, sim=ENDLESS) for _ in range(STREAMS)]
        calls = asyncio.gather(*endless)
        # Every stream has delivered something, and the heartbeat has reported it.
        await eventually(
            lambda: delivered_holds(database_url) == STREAMS, what="reported deliveries"
        )
        h.gateway.kill()
        seen = await calls
        assert all(one.is_broken and not one.is_complete for one in seen)
        h.gateway.close()
        h.start()
        await eventually(
            lambda: rows(database_url, "SELECT count(*) FROM holds") == [(0,)],
            what="the holds of the dead process are gone",
        )
        ended = rows(
            database_url,
            "SELECT status, error_code, cost_nano_usd > 0, output_tokens > 0 FROM call_logs",
        )
        assert ended == [("interrupted", "gateway_restarted", True, True)] * STREAMS
        assert {one.trace for one in seen} == {
            row[0].replace("-", "")
            for row in rows(database_url, "SELECT request_id::text FROM call_logs")
        }
        # What was charged is what clients had been sent, up to the last read.
        output = rows(database_url, "SELECT request_id::text, output_tokens FROM call_logs")
        billed = {request.replace("-", ""): tokens for request, tokens in output}
        assert all(billed[one.trace] >= -(-_characters(one) // 4) for one in seen)
        report = h.verify()
        assert report["ok"]
        assert report["counts"]["open_holds"] == 0
        # The price of the channel that served it went with the last beat, too.
        assert h.gw("ledger", "verify", "--costs")["ok"]
        kept = rows(
            database_url, "SELECT DISTINCT detail->'parts' ->> 'per_request' FROM call_logs"
        )
        assert kept == [("1",)]
        assert h.client.chat(stream=True).is_complete

    dearer = {"id": "one", "price": {"factor": "1.1"}}
    settings: dict[str, Any] = {
        "channels": [channel("one")],
        "models": [model("sim-model", dearer, price=DIMENSIONS)],
    }
    with deployment(database_url, tmp_path, **settings) as h:
        run(main(h))


@pytest.mark.long
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_embedded_database_survives_a_restart(how: str, data_dir: Path, tmp_path: Path) -> None:
    with deployment("", tmp_path, data_dir=str(data_dir)) as h:
        assert h.client.chat(stream=True).is_complete
        run(eventually(lambda: h.verify()["counts"]["open_holds"] == 0))
        before = h.gw("account", "show", h.account)["balance_usd"]
        getattr(h.gateway, how)()
        h.gateway.close()
        h.start()
        assert h.gw("account", "show", h.account)["balance_usd"] == before
        assert h.client.chat(stream=True).is_complete
