"""pytest-tornado's `io_loop`, without the event loop that it leaves unclosed.

The plugin's own asks asyncio for the loop that was current before; where there was none, asyncio
makes one, and nobody closes it. A room's `conftest.py` imports this one in its place.
"""

import asyncio
from collections.abc import Iterator

import pytest
from tornado.ioloop import IOLoop


@pytest.fixture
def io_loop() -> Iterator[IOLoop]:
    """A loop of the test's own."""
    asyncio.set_event_loop(asyncio.new_event_loop())
    loop = IOLoop.current()
    try:
        yield loop
    finally:
        loop.close(all_fds=True)
        asyncio.set_event_loop(None)
