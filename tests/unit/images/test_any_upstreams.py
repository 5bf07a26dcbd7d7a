"""Any upstreams behind one images call: what the client gets and pays, against a plain model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from tests.support.aio import run
from tests.unit.calls.world import ACCOUNT, Script, answer
from tests.unit.images.stage import EACH, generate, made, stage


@pytest.fixture(autouse=True)
def key_refusals(expect_log: Callable[..., None]) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


FUNDS = 10**9
CHANNELS = "abcd"


@dataclass(frozen=True)
class Fate:
    """What one upstream does; `images` or `http_status` where that ends the call."""

    script: Script
    images: int | None = None
    http_status: int = 0
    body: bytes = b""
    has_begun: bool = False  # an answer, of which nobody knows what it stands for

    @property
    def ends_the_call(self) -> bool:
        return self.images is not None or 400 <= self.http_status < 500 or self.has_begun


def images(count: int) -> Fate:
    body = made(count)
    return Fate(answer(body), images=count, http_status=200, body=body)


def refused(status: int) -> Fate:
    body = b'{"error": {"message": "status %d"}}' % status
    return Fate(answer(body, status=status), http_status=status, body=body)


FATES = st.one_of(
    st.integers(0, 12).map(images),
    st.sampled_from([400, 401, 404, 422, 429, 500, 502, 503, 529]).map(refused),
    st.sampled_from(
        [
            Fate((UpstreamUnreachable(),)),
            Fate((UpstreamCut(),), has_begun=True),
            Fate((UpstreamMalformed(),), has_begun=True),
            Fate(answer(b"<html>"), has_begun=True),
            Fate(answer(b'{"data": {}}'), has_begun=True),
            Fate(answer(b'{"data": [', UpstreamCut()), has_begun=True),
            Fate(answer(b"", status=307), has_begun=True),
            Fate(answer(b"", status=204), has_begun=True),
        ]
    ),
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    fates=st.lists(FATES, min_size=1, max_size=4),
    asked=st.integers(1, 10),
    price_of=st.integers(0, 9),
)
def test_client_gets_the_first_answer_and_pays_for_its_images(
    expect_log: Any, fates: list[Fate], asked: int, price_of: int
) -> None:
    expect_log("answer_unusable", required=False)

    async def main() -> None:
        scripts = {name: [fate.script] for name, fate in zip(CHANNELS, fates, strict=False)}
        balance = price_of * EACH or 1
        async with stage(scripts, balance=balance) as w:
            told = await generate(w, n=asked)
            if asked > price_of:
                assert told.refusal.http_status == 402
                assert (w.wire.tried, w.ledger.balances[ACCOUNT]) == ([], balance)
                return
            tried = fates[:3]
            for place, fate in enumerate(tried, start=1):
                if fate.ends_the_call:
                    tried = fates[:place]
                    break
            last = tried[-1]
            assert len(w.wire.tried) == len(tried)
            assert told.cost == (last.images or 0) * EACH
            assert w.ledger.balances[ACCOUNT] == balance - told.cost
            if last.http_status:
                assert (told.writer.http_status, told.writer.sent) == (last.http_status, last.body)
            else:
                assert (told.refusal.http_status, told.writer.blocks) == (502, [])
            assert told.status[0] == ("success" if last.images is not None else "error")
            assert (told.logged["unit_count"], told.logged["unit_type"]) == (
                last.images or 0,
                "image",
            )

    run(main())
