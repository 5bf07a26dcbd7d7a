"""Ids of calls are UUIDs of version 7 like any others."""

from __future__ import annotations

import pickle
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from gw.api.base import make_call_id, new_call_id


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_id_is_a_uuid_of_its_moment(milliseconds: int, random_bytes: bytes) -> None:
    made = make_call_id(milliseconds=milliseconds, random_bytes=random_bytes)
    usual = UUID(made.hex)
    assert (made, hash(made), str(made), repr(made)) == (
        usual,
        hash(usual),
        str(usual),
        repr(usual),
    )
    assert (made.version, made.variant, made.is_safe) == (7, RFC_4122, usual.is_safe)
    assert made.int >> 80 == milliseconds
    assert pickle.loads(pickle.dumps(made)) == made


def test_ids_differ() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000
