"""Ids of calls are UUIDs of version 7 like any others."""

import pickle
from multiprocessing import get_context
from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from gw.api.call_ids import make_call_id, new_call_id


def test_ids_differ() -> None:
    assert len({new_call_id() for _ in range(1000)}) == 1000
    with get_context("fork").Pool(1) as child:
        theirs = child.apply(new_call_id)
    assert theirs.int % 2**62 != new_call_id().int % 2**62  # nothing random is shared by a fork


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**80 - 1))
def test_id_is_a_uuid_of_its_moment(milliseconds: int, random_number: int) -> None:
    made = make_call_id(milliseconds, random_number)
    usual = UUID(made.hex)
    assert made == usual
    assert [form(made) for form in (hash, str, repr)] == [form(usual) for form in (hash, str, repr)]
    assert (made.version, made.variant, made.is_safe) == (7, RFC_4122, usual.is_safe)
    assert made.int >> 80 == milliseconds
    assert pickle.loads(pickle.dumps(made)) == made
