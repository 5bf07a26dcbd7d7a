"""An upstream that sends a file in trickles does not keep the place of a copy."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from actors.media_store.fetch import FetchFault, Opened
from tests.support.aio import jump


class Response:
    """Pieces of one size, each after 25 seconds."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def chunks(self) -> AsyncIterator[bytes]:
        for _ in range(7):
            jump(25.0)
            yield b"x" * self._size


async def read(size: int) -> list[int]:
    """The sizes of the pieces of such a file."""
    opened = Opened(0, None, None, None, cast(Any, Response(size)))
    return [len(piece) async for piece in opened.pieces()]


async def test_file_is_read_at_a_least_pace() -> None:
    assert await read(110_000) == [110_000] * 7
    with pytest.raises(FetchFault, match="slow"):
        await read(1)
