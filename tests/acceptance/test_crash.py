"""kill -9, a database that goes away, SIGTERM: each call has its row, no hold stays open."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.common import DIMENSIONS
from tests.support.aio import eventually, run
from tests.support.house import House, channel, house, model
from tests.support.servers import is_another, kill_server, server_of
from tests.support.streams import Stream, follow, stream, unlimited
from tests.support.transactions import transaction

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


def _characters(seen: Stream) -> int:
    """Of the content of the events that came whole."""
    events = [line[6:] for line in seen.body.split(b"\n\n")[:-1] if line.startswith(b"data: {")]
    deltas = [choice["delta"] for event in events for choice in json.loads(event)["choices"]]
    assert deltas
    return sum(len(delta.get("content") or "") for delta in deltas)


def test_killed_process_leaves_no_call_unsettled(database_url: str, tmp_path: Path) -> None:
    async def main(h: House) -> None:
        async with unlimited() as session:
            seen = [Stream() for _ in range(STREAMS)]
            calls = [asyncio.create_task(follow(session, h, one, sim=ENDLESS)) for one in seen]
            # Every stream has delivered something, and the heartbeat has said so.
            await eventually(
                lambda: delivered_holds(database_url) == STREAMS, what="reported deliveries"
            )
            h.gateway.kill()
            await asyncio.gather(*calls)
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
        async with unlimited() as session:
            assert (await stream(session, h)).is_complete

    dearer = {"id": "one", "price": {"factor": "1.1"}}
    settings: dict[str, Any] = {
        "channels": [channel("one")],
        "models": [model("sim-model", dearer, price=DIMENSIONS)],
    }
    with house(database_url, tmp_path, **settings) as h:
        run(main(h))


def test_answer_complete_before_a_kill_is_charged_in_full(
    database_url: str, tmp_path: Path
) -> None:
    """Its settlement waited for a row that another transaction had locked."""

    async def main(h: House) -> None:
        async with unlimited() as session:
            seen = [Stream() for _ in range(3)]
            sim = {"events": 4, "pause": 2, "usage": {"input": 10, "output": 5}}
            calls = [asyncio.create_task(follow(session, h, one, sim=sim)) for one in seen]
            await asyncio.to_thread(h.upstream.wait, paused=3)
            with transaction(database_url) as cursor:
                cursor.execute("SELECT FROM accounts FOR UPDATE")
                h.upstream.resume()
                await asyncio.gather(*calls)
                assert all(one.is_complete for one in seen)
                h.gateway.kill()
            h.gateway.close()
            h.start()
            await eventually(
                lambda: rows(database_url, "SELECT count(*) FROM holds") == [(0,)],
                what="the holds of the dead process are gone",
            )
        kept = rows(database_url, "SELECT status, cost_nano_usd FROM call_logs")
        assert kept == [("success", 60_000)] * 3
        assert h.verify()["ok"]
        assert h.gw("ledger", "verify", "--costs")["ok"]

    with house(database_url, tmp_path) as h:
        run(main(h))


@pytest.mark.long
def test_killed_database_loses_and_doubles_nothing(data_dir: Path, tmp_path: Path) -> None:
    """The embedded PostgreSQL is killed under load; the gateway starts it again by itself."""

    async def main(h: House) -> None:
        seen: list[Stream] = []
        is_over = asyncio.Event()
        short = {"events": 5, "delay_event_ms": 5, "usage": {"input": 10, "output": 5}}

        async def client(session: Any) -> None:
            while not is_over.is_set():
                seen.append(await stream(session, h, sim=short))

        async with unlimited() as session:
            clients = [asyncio.create_task(client(session)) for _ in range(20)]
            await eventually(lambda: len(seen) > 200, what="calls before the kill")
            before = server_of(data_dir).pid
            kill_server(data_dir)
            # Until it is back the leases of this account serve on.
            await eventually(lambda: is_another(data_dir, before), what="a server in its place")
            back = len(seen)

            def serves() -> bool:
                return sum(one.is_complete for one in seen[back:]) > 200

            await eventually(serves, what="calls after the kill")
            is_over.set()
            await asyncio.gather(*clients)
        # Every client got its answer or a clear error; nobody hung and nobody was cut off.
        for one in seen:
            assert not one.is_broken
            assert one.is_complete or one.status == 503, one
        complete = sum(one.is_complete for one in seen)
        assert h.gateway.terminate() == 0
        assert h.verify()["ok"]
        account = h.gw("account", "show", h.account)
        # 10 in, 5 out at 1 and 10 USD per million: each complete call cost the same.
        charged = round((1000 - float(account["balance_usd"])) / 0.00006)
        assert charged >= complete
        assert charged <= len(seen)
        h.gateway.close()
        h.start()

    with house("", tmp_path, usd="1000", data_dir=str(data_dir)) as h:
        run(main(h))


@pytest.mark.long
def test_drain_ends_what_takes_too_long_and_settles_it(database_url: str, tmp_path: Path) -> None:
    async def main(h: House) -> None:
        async with unlimited() as session:
            seen = Stream()
            call = asyncio.create_task(follow(session, h, seen, sim=ENDLESS))
            await eventually(lambda: len(seen.body) > 500, what="a stream under way")
            assert await asyncio.to_thread(h.gateway.terminate) == 0
            await call
        assert not seen.is_complete
        found = rows(database_url, "SELECT status, error_code, cost_nano_usd > 0 FROM call_logs")
        assert found == [("interrupted", "gateway_stopping", True)]
        assert rows(database_url, "SELECT count(*) FROM holds") == [(0,)]

    with house(database_url, tmp_path, drain_seconds=1) as h:
        run(main(h))


@pytest.mark.long
@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_embedded_database_survives_a_restart(how: str, data_dir: Path, tmp_path: Path) -> None:
    async def one_call(h: House) -> None:
        async with unlimited() as session:
            assert (await stream(session, h)).is_complete

    with house("", tmp_path, data_dir=str(data_dir)) as h:
        run(one_call(h))
        run(eventually(lambda: h.verify()["counts"]["open_holds"] == 0))
        before = h.gw("account", "show", h.account)["balance_usd"]
        getattr(h.gateway, how)()
        h.gateway.close()
        h.start()
        assert h.gw("account", "show", h.account)["balance_usd"] == before
        run(one_call(h))
