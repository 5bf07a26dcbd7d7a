"""A media call with an idempotency key: kept before it is seen; failures are not kept at all."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from actors.wallet.wallets import KeyTaken
from channels.errors import UpstreamUnreachable
from gw.calls.settlement import DURABLE_SECONDS
from tests.support.aio import eventually, jump
from tests.support.fake_claims import ClaimRow
from tests.support.rows import each
from tests.unit.calls.world import (
    ACCOUNT,
    ATTEMPT_SECONDS,
    FOR_EVER,
    RecordingWriter,
    Script,
    Step,
    World,
    response_of,
)
from tests.unit.images.stage import EACH, generate, made, prepare, stage


def claims(w: World) -> list[str]:
    """The state of each key."""
    return [row.state for row in w.ledger.claims.rows.values()]


def row_of(w: World) -> ClaimRow:
    return w.ledger.claims.rows[ACCOUNT, "k"]


@asynccontextmanager
async def served_and_unsettled(
    key: str | None, *upstream: Step, cost: int = EACH
) -> AsyncIterator[tuple[World, RecordingWriter]]:
    """A call whose settlement is on its way to a ledger that does not answer for now."""
    ready, client = asyncio.Event(), RecordingWriter()
    async with stage(a=[(ready, *(upstream or response_of(made(1))))]) as w:
        w.begin(prepare(w, key=key), client)
        await eventually(lambda: w.http.tried == ["a"], what="the attempt")
        gate = w.ledger.gate = asyncio.Event()
        ready.set()
        await eventually(lambda: not w.live.ids(), what="the settlement on its way")
        for _ in range(20):  # turns of the loop in which the answer could go out
            await asyncio.sleep(0)
        yield w, client
        gate.set()
        await w.end(w.calls[-1], client)
        assert w.ledger.balances[ACCOUNT] == 10**9 - cost


async def test_answer_is_kept_as_it_went_out() -> None:
    async with stage(a=[response_of(made(1))]) as w:
        result = await generate(w, key="k")
        row = row_of(w)
        assert (row.state, row.status, row.body) == ("stored", 200, result.writer.sent)
        assert row.headers == [["Content-Type", "application/json"]]
        with pytest.raises(KeyTaken) as taken:
            await generate(w, key="k")
        assert taken.value.state == "stored"
        assert w.ledger.balances[ACCOUNT] == 10**9 - EACH


async def test_answer_with_a_key_is_seen_only_when_it_is_kept() -> None:
    async with served_and_unsettled("k") as (w, client):
        assert (client.has_ended, claims(w)) == (False, ["executing"])
    assert (client.has_ended, claims(w)) == (True, ["stored"])


ERRORS: dict[str, Script] = {
    "passed on": response_of(b'{"error": {"message": "no"}}', status=400),
    "our own": (UpstreamUnreachable(),),
}


@each("upstream", ERRORS.values())
async def test_error_is_reported_only_when_the_key_is_free(upstream: Script) -> None:
    async with served_and_unsettled("k", *upstream, cost=0) as (w, client):
        assert client.task is not None
        assert (client.task.done(), client.has_ended) == (False, False)
        assert claims(w) == ["executing"]
    assert claims(w) == []


async def test_answer_without_a_key_waits_for_nothing() -> None:
    async with served_and_unsettled(None) as (_, client):
        assert client.has_ended


async def test_ledger_that_hangs_does_not_keep_an_answer_for_ever() -> None:
    async with served_and_unsettled("k") as (w, client):
        jump(DURABLE_SECONDS + 1)
        await eventually(lambda: client.has_ended, what="the answer")
        assert claims(w) == ["executing"]
    assert claims(w) == ["stored"]


async def test_client_that_leaves_while_its_answer_is_being_kept_may_ask_again() -> None:
    async with served_and_unsettled("k") as (w, client):
        client.leave()
    assert claims(w) == ["stored"]


ENDINGS: dict[str, tuple[Callable[[RecordingWriter], None], list[str]]] = {
    "time-out": (lambda _: jump(ATTEMPT_SECONDS + 1), []),
    "drain": (lambda client: client.cut(), []),
    "client": (lambda client: client.leave(), ["executing"]),
}


@each("end, left", ENDINGS.values())
async def test_unanswered_call_leaves_its_key_free_unless_its_client_left(
    end: Callable[[RecordingWriter], None], left: list[str]
) -> None:
    async with stage(a=[(FOR_EVER,)]) as w:
        call, client = prepare(w, key="k"), RecordingWriter()
        w.begin(call, client)
        await eventually(lambda: w.http.tried == ["a"], what="the attempt")
        assert claims(w) == ["executing"]
        end(client)
        await w.end(call, client)
        assert claims(w) == left


async def test_client_that_leaves_before_its_hold_leaves_its_key_free() -> None:
    async with stage(a=[response_of(made(1))]) as w:
        gate = w.ledger.gate = asyncio.Event()
        call, client = prepare(w, key="k"), RecordingWriter()
        w.begin(call, client)
        await eventually(lambda: not w.writer.is_idle, what="the hold under way")
        client.leave()
        gate.set()
        result = await w.end(call, client)
        assert claims(w) == []
        assert result.status == ("interrupted", "client_disconnected")
