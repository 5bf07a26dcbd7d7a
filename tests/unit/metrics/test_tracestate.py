"""What others say of a trace is sent on as it came, as far as it is well-formed and fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metrics.spans import CHARACTERS_MAX, MEMBERS_MAX, read
from tests.support.rows import each


@each(
    "header, expected",
    [
        ("congo=t61rcWkgMzE", "congo=t61rcWkgMzE"),
        ("rojo=00f067aa0ba902b7, congo=t61 r", "rojo=00f067aa0ba902b7,congo=t61 r"),
        ("1a-2f@foo=1,\t bar_*/=x;y ", "1a-2f@foo=1,bar_*/=x;y"),
        ("a=1,,b=2, ,", "a=1,b=2"),
        ("a=1,a=2", "a=1"),
        ("a" * 256 + "=1", "a" * 256 + "=1"),
        ("a=" + "v" * 256, "a=" + "v" * 256),
        ("", ""),
        ("a", ""),
        ("a=", ""),
        ("=1", ""),
        ("A=1,b=2", "b=2"),
        ("1a=1,b=2", "b=2"),
        ("a b=1,b=2", "b=2"),
        ("a=1=2,b=2", "b=2"),
        ("a=é,b=2", "b=2"),
        ("a=1\r\nx: y,b=2", "b=2"),
        ("a@1b=1,b=2", "b=2"),
        ("a" * 257 + "=1,b=2", "b=2"),
        ("a=" + "v" * 257 + ",b=2", "b=2"),
    ],
)
def test_members_that_are_well_formed_are_kept_in_their_order(header: str, expected: str) -> None:
    assert read(header) == expected


def test_first_of_too_many_are_kept() -> None:
    members = [f"k{number}=1" for number in range(MEMBERS_MAX + 8)]
    assert read(",".join(members)) == ",".join(members[:MEMBERS_MAX])


def test_long_members_go_first_where_there_is_no_room_and_then_the_last() -> None:
    long, short = "l=" + "x" * 200, [f"k{number}=" + "y" * 60 for number in range(9)]
    assert read(",".join([short[0], long, *short[1:4]])) == ",".join([short[0], long, *short[1:4]])
    assert read(",".join([short[0], long, *short[1:9]])) == ",".join(short[:8])
    assert read(",".join([long, *short[:5]])) == ",".join(short[:5])


_MEMBERS = st.lists(
    st.builds("{}={}".format, st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(max_size=300)),
    max_size=60,
)


@given(_MEMBERS)
def test_whatever_comes_what_is_sent_is_bounded_and_is_read_as_itself(members: list[str]) -> None:
    sent = read(",".join(members))
    assert len(sent) <= CHARACTERS_MAX
    assert len(sent.split(",")) <= MEMBERS_MAX
    assert sent.isascii()
    assert sent.isprintable()
    assert read(sent) == sent
