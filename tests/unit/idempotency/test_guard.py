"""What a client is answered when its key is not free, without a gateway around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import pytest

from actors.wallet.messages import ClaimState, KeptResponse
from actors.wallet.wallets import KeyTaken
from gw.calls.call import ResponseWriter
from gw.errors import GatewayError
from gw.idempotency import IdempotencyGuard, StoredResponse, Submission
from tests.support.aio import run
from tests.unit.api.fakes import FakeMetrics, FakeStoredResponses

KEPT = StoredResponse(
    UUID(int=7),
    KeptResponse(
        status=201, headers=(("Content-Type", "audio/mpeg"), ("x-more", "1")), body=b"\xff\x00"
    ),
)


class World:
    """A guard, what it remembers, and a client."""

    def __init__(self) -> None:
        self.kept = FakeStoredResponses()
        self.metrics = FakeMetrics()
        self.began: tuple[str, dict[str, str], int] | None = None
        self.sent: list[bytes] = []
        self.guard = IdempotencyGuard(
            kept=self.kept, response_bytes_max=10, metrics=cast(Any, self.metrics)
        )

    def begin(self, content_type: str, headers: Mapping[str, str], *, http_status: int) -> None:
        self.began = content_type, dict(headers), http_status

    def send(self, body: bytes) -> None:
        self.sent.append(body)

    def submission(self) -> Submission:
        found = self.guard.submission(["k"], account_id="a", asked=lambda: b"one")
        assert found is not None
        return found

    async def finds(self, standing: ClaimState) -> None:
        """Run a use-case whose key is not free."""

        async def use_case() -> None:
            raise KeyTaken(standing)

        await self.guard.run(self.submission(), use_case, cast(ResponseWriter, self))


def test_free_key_leaves_the_answer_to_the_use_case() -> None:
    world = World()

    async def use_case() -> None:
        world.send(b"its own")

    run(world.guard.run(world.submission(), use_case, cast(ResponseWriter, world)))
    assert (world.sent, world.began, world.metrics.standings) == ([b"its own"], None, [])


def test_stored_answer_goes_out_as_it_was() -> None:
    world = World()
    world.kept.kept["a", "k"] = KEPT
    run(world.finds("stored"))
    assert world.began == (
        "audio/mpeg",
        {"x-more": "1", "x-gateway-trace": UUID(int=7).hex, "Idempotency-Replayed": "true"},
        201,
    )
    assert world.sent == [b"\xff\x00"]
    assert world.metrics.standings == ["stored"]


@pytest.mark.parametrize(
    ("standing", "code"),
    [
        ("reuse", "idempotency_key_reuse"),
        ("in_flight", "idempotency_in_flight"),
        ("too_large", "idempotency_response_not_cached"),
        ("stored", "idempotency_in_flight"),  # it has expired since
    ],
)
def test_key_that_is_not_free_is_a_conflict(standing: ClaimState, code: str) -> None:
    world = World()
    with pytest.raises(GatewayError) as refused:
        run(world.finds(standing))
    assert (refused.value.http_status, refused.value.kind.code) == (409, code)
    assert refused.value.param == "Idempotency-Key"
    assert (world.sent, world.metrics.standings) == ([], [standing])


def test_key_is_known_only_when_it_is_good_and_used() -> None:
    world = World()
    world.kept.known = {("a", "k"), ("a", "not good")}

    async def known(*values: str) -> bool:
        return await world.guard.is_known(values, account_id="a")

    assert run(known("k"))
    assert not run(known("other"))
    assert not run(known("not good"))
    assert not run(known())
