"""Sampled stacks are summed up by the room that a sample belongs to."""

from __future__ import annotations

import pytest

from loadtests.bench.rooms import LOOP, library_of, parse_stacks, report, room_of

RUN = "run (uvloop/__init__.py:96)"
READ = "data_received (/srv/src/gw/http/connection.py:120)"
EXECUTE = "_execute (/srv/lib/python3.11/site-packages/tornado/web.py:1790)"
WALLET = "hold (/srv/src/actors/wallet/wallet.py:55)"
SEND = "send (/usr/lib/python3.11/socket.py:10)"


@pytest.mark.parametrize(
    ("stack", "room"),
    [
        ([RUN], LOOP),
        (["run_loop (gw/run.py:80)", RUN], LOOP),
        ([RUN, READ], "HTTP server"),
        ([RUN, READ, EXECUTE], "HTTP server"),
        ([RUN, READ, EXECUTE, WALLET, SEND], "wallet and ledger"),
        ([RUN, "go (/srv/src/gw/ids.py:1)"], "other"),
    ],
)
def test_a_sample_belongs_to_the_innermost_frame_that_is_ours(stack: list[str], room: str) -> None:
    assert room_of(stack) == room


def test_libraries_are_told_apart() -> None:
    frames = (WALLET, EXECUTE, SEND, RUN, "f (asyncio/base.py:1)", "f (six.py:1)", "<frozen abc>")
    assert [library_of(frame) for frame in frames] == [
        "this project",
        "tornado",
        "Python's library",
        "uvloop",
        "Python's library",
        "six",
        "Python's library",
    ]


def test_the_report_gives_shares() -> None:
    stacks = parse_stacks(f"{RUN};{READ} 30\n{RUN};{READ};{WALLET} 60\n{RUN} 10\n")
    assert sum(stacks.values()) == 100
    assert not parse_stacks(
        "_bootstrap (threading.py:1);_worker (concurrent/futures/thread.py:81) 9"
    )
    text = report("plain", stacks)
    assert "  60.0%  wallet and ledger" in text
    assert "  90.0%  data_received (gw/http/connection.py)" in text
    assert "  10.0%  event loop" in text
