"""The load of the overload attack: what it sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio

import pytest

from loadtests.attacks.overload import closed_loop, open_loop, quantile
from loadtests.rig.processes import Target
from tests.support.aio import eventually


async def answer_by_turns(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Every third request is refused."""
    count = 0
    try:
        while head := await reader.readuntil(b"\r\n\r\n"):
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
            await reader.readexactly(int(length or 0))
            count += 1
            status = b"503 Busy" if count % 3 == 0 else b"200 OK"
            writer.write(b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\nok" % status)
            if head.startswith(b"GET"):
                return
    except (asyncio.IncompleteReadError, ConnectionError):
        return
    finally:
        writer.close()


@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "a new one each"])
async def test_every_request_is_counted_once(keeps: bool) -> None:
    serving: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(writer)
        await answer_by_turns(reader, writer)
        serving.discard(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    target = Target("a server", "127.0.0.1", port, 1, ["one", "two"], admin_url=url)

    async def some_of_all_came() -> bool:
        """Whether the machine was quick enough; whatever came is counted right."""
        seen = await open_loop(target, "open", 500, 0.3, keeps=keeps)
        assert (seen.unsent, seen.other) == (0, {})
        assert len(seen.served) <= seen.sent - len(seen.refused)
        assert keeps or not seen.refused
        came = seen.sent >= 100 and len(seen.admin) >= 2 and len(seen.served) > 0
        return came and bool(seen.refused) == keeps

    async def some_were_served() -> bool:
        return await closed_loop(target, 0.1) > 0

    async with server:
        if keeps:
            await eventually(some_were_served)
        await eventually(some_of_all_came)
    await eventually(lambda: not serving)
    await asyncio.sleep(0)  # the last of them ends


def test_quantiles_are_in_milliseconds() -> None:
    assert quantile([], 0.95) == 0.0
    assert quantile([0.003, 0.001, 0.002], 0.5) == 2.0
    assert quantile([0.001, 0.002], 1.0) == 2.0
