"""Keys as they may be written, bodies that are the same, and what becomes of a key at the end."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.messages import Claim, ClaimEnd, Free, KeptResponse, ResponseTooLarge
from gw.calls.call import CLIENT_GONE, STOPPING, Ending
from gw.errors import GatewayError
from gw.idempotency import Submission, fingerprint, read_key

PRINTABLE = "".join(chr(code) for code in range(0x21, 0x7F))


@given(st.text(PRINTABLE, min_size=1, max_size=200))
def test_any_printable_ascii_is_a_key(key: str) -> None:
    assert read_key([key]) == key


def test_no_header_is_no_key() -> None:
    assert read_key([]) is None


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


def of(body: bytes, method: str = "POST", path: str = "/v1/a") -> bytes:
    return fingerprint(method=method, path=path, body=body)


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


@pytest.mark.parametrize(
    "pair",
    [
        (b'{"n": 1}', b'{"n": "1"}'),
        (b'{"n": 1}', b'{"n": 1, "m": null}'),
        (b"[1, 2]", b"[2, 1]"),
        (b"not json", b"not  json"),
        (b"\xff", b"\xfe"),
        (b"[" * 5000, b"[" * 5001),
        (b"1" * 400, b"1" * 401),
        (b"", b"null"),
    ],
)
def test_bodies_that_differ(pair: tuple[bytes, bytes]) -> None:
    assert of(pair[0]) != of(pair[1])
    assert of(pair[0]) == of(pair[0])


def test_place_is_part_of_what_was_asked() -> None:
    assert len({of(b"{}"), of(b"{}", path="/v1/b"), of(b"{}", method="PUT")}) == 3


SUCCESS = Ending("success", None, None)
FAILED = Ending("error", "upstream_error", "it failed")


def answer(size: int = 2, status: int = 200) -> KeptResponse:
    return KeptResponse(status=status, headers=(("Content-Type", "text/plain"),), body=b"x" * size)


ENDS: dict[str, tuple[Ending, int, KeptResponse | None, ClaimEnd]] = {
    "answered": (SUCCESS, 40, answer(), answer()),
    "answered free of charge": (SUCCESS, 0, answer(), answer()),
    "accepted": (SUCCESS, 40, answer(status=202), answer(status=202)),
    "as large as may be": (SUCCESS, 40, answer(10), answer(10)),
    "too large": (SUCCESS, 40, answer(11), ResponseTooLarge()),
    "partly failed, and paid for": (FAILED, 40, answer(), answer()),
    "failed with status 200": (FAILED, 0, answer(), Free()),
    "failed": (FAILED, 0, None, Free()),
    "answered with an error": (FAILED, 0, answer(status=400), Free()),
    "timed out": (Ending("interrupted", "upstream_timeout", "late"), 0, None, Free()),
    "gateway stopped": (STOPPING, 0, None, Free()),
    "client left": (CLIENT_GONE, 0, None, None),
}


@pytest.mark.parametrize(("ending", "cost", "kept", "expected"), ENDS.values(), ids=ENDS.keys())
def test_end_of_a_key(
    ending: Ending, cost: int, kept: KeptResponse | None, expected: ClaimEnd
) -> None:
    claim = Claim(key="k", fingerprint=b"f")
    submission = Submission(account_id="a", claim=claim, response_bytes_max=10)
    left = ending == CLIENT_GONE
    ended = submission.end(ending.status, client_left=left, cost_nano_usd=cost, response=kept)
    assert ended == expected
