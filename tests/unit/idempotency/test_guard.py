"""One charge for one submit intent."""

import json
from collections.abc import Mapping
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.claims import Claim, ClaimEnd, ClaimState, Free, KeptResponse, ResponseTooLarge
from actors.wallet.wallets import KeyTaken
from gw.calls.call import ResponseWriter
from gw.calls.endings import CLIENT_GONE, STOPPING, Ending
from gw.errors import GatewayError
from gw.idempotency.claim import IdempotencyClaim, fingerprint_of, read_key
from gw.idempotency.guard import IdempotencyGuard
from gw.idempotency.store import StoredResponse
from tests.support.aio import run
from tests.support.forms import BOUNDARY, form, part
from tests.support.rows import cases, each
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

    def claim(self) -> IdempotencyClaim:
        return self.guard.claim_of("a", "k", b"one")

    async def finds(self, standing: ClaimState) -> None:
        """Run a use-case whose key is not free."""

        async def use_case() -> None:
            raise KeyTaken(standing)

        await self.guard.run_once(self.claim(), use_case, cast(ResponseWriter, self))


def test_free_key_leaves_the_answer_to_the_use_case() -> None:
    world = World()

    async def use_case() -> None:
        world.send(b"its own")

    run(world.guard.run_once(world.claim(), use_case, cast(ResponseWriter, world)))
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


@cases(
    "standing, code",
    ("reuse", "idempotency_key_reuse"),
    ("in_flight", "idempotency_in_flight"),
    ("too_large", "idempotency_response_not_cached"),
    ("stored", "idempotency_in_flight"),  # it has expired since
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


PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


@given(st.text(PRINTABLE, min_size=1, max_size=200))
def test_any_printable_ascii_is_a_key(key: str) -> None:
    assert read_key([key]) == key


@given(
    st.one_of(
        st.just(""),
        st.text(PRINTABLE, min_size=201, max_size=300),
        st.tuples(
            st.text(PRINTABLE, max_size=99),
            st.characters(exclude_characters=PRINTABLE),
            st.text(PRINTABLE, max_size=99),
        ).map("".join),
    )
)
def test_anything_else_is_refused(key: str) -> None:
    with pytest.raises(GatewayError) as refused:
        read_key([key])
    assert (refused.value.http_status, refused.value.kind.code) == (400, "invalid_idempotency_key")
    assert key == "" or key not in refused.value.message


def test_two_headers_are_refused() -> None:
    with pytest.raises(GatewayError, match="more than once"):
        read_key(["a", "a"])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


def of(
    body: bytes, method: str = "POST", path: str = "/v1/a", content_type: str | None = None
) -> bytes:
    made, _ = fingerprint_of(body, method, path, content_type)
    return made


@given(values)
def test_writing_of_a_body_does_not_matter(value: object) -> None:
    compact = json.dumps(value, separators=(",", ":")).encode()
    spread = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False).encode()
    assert of(compact) == of(spread)
    assert len(of(compact)) == 32


@given(values, values)
def test_other_values_are_another_body(one: object, other: object) -> None:
    texts = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assert (of(texts[0].encode()) == of(texts[1].encode())) == (texts[0] == texts[1])


@cases(
    "pair",
    (b'{"n": 1}', b'{"n": "1"}'),
    (b'{"n": 1}', b'{"n": 1, "m": null}'),
    (b"[1, 2]", b"[2, 1]"),
    (b"not json", b"not  json"),
    (b"\xff", b"\xfe"),
    (b"[" * 5000, b"[" * 5001),
    (b"1" * 400, b"1" * 401),
    (b"", b"null"),
)
def test_bodies_that_differ(pair: tuple[bytes, bytes]) -> None:
    assert of(pair[0]) != of(pair[1])
    assert of(pair[0]) == of(pair[0])


def test_boundary_of_a_form_does_not_matter_and_all_else_does() -> None:
    parts = [part("file", b"12", "a.wav"), part("model", b"m")]

    def made(*parts: bytes, boundary: str = BOUNDARY) -> bytes:
        body = form(*parts).replace(BOUNDARY.encode(), boundary.encode())
        return of(body, content_type=f"multipart/form-data; boundary={boundary}")

    assert made(*parts) == made(*parts, boundary="another")
    others = [
        made(part("file", b"13", "a.wav"), parts[1]),
        made(part("file", b"12", "b.wav"), parts[1]),
        made(part("file", b"12"), parts[1]),
        made(parts[0], part("model", b"n")),
        made(*reversed(parts)),
        made(*parts, part("n", b"1")),
        made(*parts, part("n*", b"1")),  # no plain form
        made(*parts, part("n*", b"2")),
    ]
    assert len({made(*parts), *others}) == 1 + len(others)


async def test_key_is_looked_up_before_the_use_case() -> None:
    world = World()
    writer = cast(ResponseWriter, world)
    assert not await world.guard.replayed(world.claim(), writer)
    assert (world.began, world.metrics.standings) == (None, [])
    world.kept.kept["a", "k"] = KEPT
    assert await world.guard.replayed(world.claim(), writer)
    assert (world.sent, world.metrics.standings) == ([b"\xff\x00"], ["stored"])


def test_place_is_part_of_what_was_requested() -> None:
    assert len({of(b"{}"), of(b"{}", path="/v1/b"), of(b"{}", method="PUT")}) == 3


SUCCESS = Ending("success", None, None)
FAILED = Ending("error", "upstream_error", "it failed")


def response_of(size: int = 2, status: int = 200) -> KeptResponse:
    return KeptResponse(status=status, headers=(("Content-Type", "text/plain"),), body=b"x" * size)


ENDS: dict[str, tuple[Ending, int, KeptResponse | None, ClaimEnd]] = {
    "answered": (SUCCESS, 40, response_of(), response_of()),
    "answered free of charge": (SUCCESS, 0, response_of(), response_of()),
    "accepted": (SUCCESS, 40, response_of(status=202), response_of(status=202)),
    "as large as may be": (SUCCESS, 40, response_of(10), response_of(10)),
    "too large": (SUCCESS, 40, response_of(11), ResponseTooLarge()),
    "partly failed, and paid for": (FAILED, 40, response_of(), response_of()),
    "failed with status 200": (FAILED, 0, response_of(), Free()),
    "failed": (FAILED, 0, None, Free()),
    "answered with an error": (FAILED, 0, response_of(status=400), Free()),
    "timed out": (Ending("interrupted", "upstream_timeout", "late"), 0, None, Free()),
    "gateway stopped": (STOPPING, 0, None, Free()),
    "client left": (CLIENT_GONE, 0, None, None),
}


@each("ending, cost, kept, expected", ENDS.values())
def test_end_of_a_key(
    ending: Ending, cost: int, kept: KeptResponse | None, expected: ClaimEnd
) -> None:
    claim = Claim(key="k", fingerprint=b"f")
    idempotency = IdempotencyClaim(account_id="a", claim=claim, response_bytes_max=10)
    left = ending == CLIENT_GONE
    ended = idempotency.end(ending.status, client_left=left, cost_nano_usd=cost, response=kept)
    assert ended == expected
