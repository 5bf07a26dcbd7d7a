"""The figures of the overview, sent while a page shows them: how many at once, and whose."""

from contextlib import AsyncExitStack
from typing import Any, cast

from gw.console.application import routes
from gw.console.figures import STREAMS_EACH_MAX, STREAMS_MAX, Figures
from gw.console.overview import StreamHandler
from gw.console.texts import TEXTS
from tests.support.aio import eventually
from tests.unit.console.fakes import World, cookie
from tests.unit.http.client import Address, request

(PAGE,) = (page for page in routes() if page.handler is StreamHandler)


def head_of(session: str) -> str:
    return request("GET", PAGE.path, cookie(session), key=None)


async def begun(address: Address, session: str, stack: AsyncExitStack) -> int:
    """The status of one more stream, which goes on until the stack is left."""
    client = await stack.enter_async_context(address.client())
    await client.send_head(head_of(session))
    return int((await client.reader.readline()).split()[1])


async def test_session_has_some_of_the_streams_and_leaves_the_others_theirs() -> None:
    world, sessions = World(), [str(number) for number in range(STREAMS_MAX // STREAMS_EACH_MAX)]
    world.database.tokens = {*sessions, "late"}
    world.figures = figures = Figures(
        process_id="p",
        database=cast(Any, world.database),
        current=cast(Any, world),
        channels=cast(Any, None),
        metrics=world.metrics,
        clock=world.clock,
    )
    async with (
        world.served([PAGE], connections_max=2 * STREAMS_MAX) as address,
        AsyncExitStack() as others,
    ):
        async with AsyncExitStack() as first:
            for _ in range(STREAMS_EACH_MAX):
                assert await begun(address, sessions[0], first) == 200
            refused = await address.request(head_of(sessions[0]))
            assert (refused.status, TEXTS("error.streams") in refused.body.decode()) == (503, True)
            for session in sessions[1:]:
                for _ in range(STREAMS_EACH_MAX):
                    assert await begun(address, session, others) == 200
            assert (await address.request(head_of("late"))).status == 503
        await eventually(lambda: figures.streams.used == STREAMS_MAX - STREAMS_EACH_MAX)
        assert await begun(address, "late", others) == 200
