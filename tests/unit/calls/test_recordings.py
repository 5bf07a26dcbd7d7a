"""Recorded streams of real providers on their way through an attempt, natively and translated.

An extra: where the recordings are not beside the project there is nothing here to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.dialects.table import CHAT_DIALECTS
from tests.unit.calls.relaying import PASSTHROUGH, TRANSLATED, Way, relayed
from tests.unit.channels.recordings import stream_of, streams

PIECE_BYTES = 997  # a prime, so that cuts fall anywhere


def recorded(upstream: str) -> Iterator[tuple[Path, bytes]]:
    """The recordings of a protocol; those of chat lack their terminator."""
    for path in streams(upstream):
        stream = stream_of(path)
        if upstream == "chat" and b"data: [DONE]" not in stream:
            stream += b"data: [DONE]\n\n"
        yield path, stream


@pytest.mark.parametrize("way", PASSTHROUGH[: len(CHAT_DIALECTS)], ids=str)
def test_passthrough_recording_passes_byte_for_byte(way: Way) -> None:
    for path, stream in recorded(way.upstream):
        got = relayed(way, [stream])
        assert got.is_complete, path.name
        # Some recordings hold several answers; a stream is over with the first, and the others go
        # out behind it.
        assert got.body == stream, path.name


@pytest.mark.parametrize("way", [*PASSTHROUGH, *TRANSLATED], ids=str)
def test_recording_comes_to_its_end_however_it_is_cut(way: Way) -> None:
    for path, stream in recorded(way.upstream):
        whole = relayed(way, [stream])
        assert whole.is_complete or whole.failed is not None, path.name
        assert bool(whole.body) != bool(whole.failed), path.name
        cut = [stream[at : at + PIECE_BYTES] for at in range(0, len(stream), PIECE_BYTES)]
        assert relayed(way, cut) == whole, path.name
