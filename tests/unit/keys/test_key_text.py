"""Key texts: made, recognised, shown in part"""

from hypothesis import given
from hypothesis import strategies as st

from gw.keys.hashing import legacy_hash
from gw.keys.key_text import is_key_text, new_key_text
from tests.support.rows import cases

GOOD = "sk-platform-" + "0123456789abcdef" * 4


def test_new_keys_are_well_formed_and_differ() -> None:
    keys = [new_key_text() for _ in range(100)]
    assert all(map(is_key_text, keys))
    assert {len(key) for key in keys} == {76}
    assert len(set(keys)) == 100


@cases(
    "text",
    "",
    "sk-platform-",
    GOOD[:-1],
    GOOD + "0",
    GOOD + "\n",
    " " + GOOD[:-1],
    GOOD.upper(),
    "SK-platform-" + GOOD[12:],
    "sk-platform" + GOOD[11:].replace("-", "0"),
    GOOD[12:],
)
def test_anything_else_is_malformed(text: str) -> None:
    assert not is_key_text(text)
    assert len(legacy_hash(text)) == 32


@given(
    position=st.integers(min_value=0, max_value=75), character=st.characters(exclude_categories=())
)
def test_one_changed_character_is_accepted_only_as_a_hex_digit(
    position: int, character: str
) -> None:
    text = GOOD[:position] + character + GOOD[position + 1 :]
    is_same = text == GOOD
    assert is_key_text(text) == (is_same or (position >= 12 and character in "0123456789abcdef"))
