"""Searches into terms, and pages into what they are found by."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.knowledge.fields import BODY, OVERLAP_POSITIONS, PART_POSITIONS, field_parts
from gw.knowledge.pages import KnowledgePage, parse_page
from gw.knowledge.query import parse_query
from gw.knowledge.snippet import (
    SNIPPET_CHARACTERS,
    STRETCH_CHARACTERS_MAX,
    WINDOW_CHARACTERS,
    WINDOWS_MAX,
    Finder,
    plain_snippet,
    snippet,
)
from gw.knowledge.words import groups, normalise
from tests.support.rows import cases

MIXED = st.text(st.sampled_from("aB1_.-'\"“” \n知识が한👍🇩🇪é́́ßﬁ\0\\&|!<>():*"), max_size=60)


def every(text: str) -> list[str]:
    return [term.tsquery("") for term in parse_query(text).every]


@cases(
    "text, expected",
    ("otters", ["('otter')"]),
    ("Café CAFE", ["('cafe')"]),
    ("the otter", ["('otter')"]),
    ("the who", ["('the')", "('who')"]),
    ("max_tokens", ["('max_token' | 'max' <1> 'token')"]),
    ("getUserName", ["('getusernam' | 'get' <1> 'user' <1> 'name')"]),
    ("v1.2", ["('v1.2' | 'v1' <1> '2')"]),
    ("otter's", ["('otter')"]),
    ('"river otters"', ["('river' <1> 'otter')"]),
    ("“the river”", ["('the' <1> 'river')"]),
    ("库", ["('库')"]),
    ("知识库", ["('知识' <1> '识库')"]),
    ("知识库检索", ["('知识' <2> '库检' <1> '检索')"]),
    ("👍🏽🇩🇪", ["('👍🏽')", "('🇩🇪')"]),
    ("ﬁne Ⅷ", ["('fine')", "('viii')"]),
    ('"" " ! & | <->', []),
    ("a:* & 'x'", ["('x')"]),
)
def test_a_search_is_terms(text: str, expected: list[str]) -> None:
    assert every(text) == expected


def test_where_no_page_has_all_runs_count_by_pairs() -> None:
    query = parse_query("知识库检索 otter")
    assert [term.tsquery("") for term in query.any] == [
        "('知识')",
        "('识库')",
        "('库检')",
        "('检索')",
        "('otter')",
    ]


@given(MIXED)
def test_every_input_is_a_search_and_its_length_bounds_its_terms(text: str) -> None:
    query = parse_query(text)
    normalised = normalise(text.replace("\0", " "))
    # A run counts twice at most: by its characters, and by their pairs.
    assert len(query.every) <= len(normalised)
    assert sum(len(s) for term in query.every for s in term.sequences) <= 2 * len(normalised)
    assert len(query.any) <= 2 * len(normalised)


def page(body: str) -> KnowledgePage:
    found = parse_page("p.md", body.encode(), [], [])
    assert found is not None
    return found


@given(MIXED.filter(lambda text: "\0" not in text and text.strip()))
def test_a_word_of_a_page_finds_it(text: str) -> None:
    body = [part for part in field_parts(page("x " + text), 1) if part.field == BODY]
    lexemes = {lexeme for part in body for lexeme in re.findall(r"'1:((?:[^']|'')*)':", part.terms)}
    for group in groups(normalise(text)):
        for lexeme in (*group.parts, *group.run):
            assert lexeme.replace("\\", "\\\\").replace("'", "''") in lexemes


def test_a_long_body_is_cut_into_parts_that_overlap() -> None:
    text = " ".join(f"w{n}" for n in range(PART_POSITIONS * 2))
    parts = [part for part in field_parts(page(text), 1) if part.field == BODY]
    assert len(parts) == 3
    for before, after in pairwise(parts):
        shared = text[after.starts : before.ends].split()
        assert len(shared) >= OVERLAP_POSITIONS
    for part in parts:
        positions = [int(p) for p in re.findall(r":(\d+)", part.terms)]
        assert max(positions) <= PART_POSITIONS


def shown(text: str, query: str) -> str:
    finder = Finder(parse_query(query).every)
    found = snippet(text, finder, is_beginning=True, is_end=True)
    return found if found is not None else plain_snippet(text, is_end=True)


def test_a_snippet_marks_what_was_found() -> None:
    assert shown("A river.\nOtters hold hands.", "otter HOLDING") == (
        "A river. **Otters** **hold** hands."
    )
    assert shown("我们的知识库检索很快", "检索") == "我们的知识库**检索**很快"
    assert shown("Der Café-Besuch", "cafe") == "Der **Café**-Besuch"
    assert shown("nothing here", "otter") == "nothing here"
    assert shown("set `max_tokens` first", "tokens") == "set `max_**tokens**` first"
    assert shown("set `max_tokens` first", "max_tokens") == "set `**max_tokens**` first"
    assert shown("call getUserName()", "user name") == "call **getUserName**()"
    assert shown("ship it 🚀 now", "🚀") == "ship it **🚀** now"
    assert shown("知识库检索很快", "检索 知识库检") == "**知识库检索**很快"
    assert shown("on an OTTER's back, ottermann", "otter") == "on an **OTTER's** back, ottermann"
    assert shown("x " * 9000 + "an otter", "otter").endswith("x x an **otter**")
    assert shown("ottermann is no", "otter") == "ottermann is no"


@pytest.mark.parametrize("word", ["word{} ", "字词{}", "a_{}.b "])
def test_what_is_looked_at_for_a_snippet_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    looked_into: list[int] = []
    spans = Finder.spans

    def counted(finder: Finder, text: str) -> list[tuple[int, int]]:
        looked_into.append(len(text))
        return spans(finder, text)

    monkeypatch.setattr(Finder, "spans", counted)
    text = "".join(word.format(n % 300) for n in range(5000))[:STRETCH_CHARACTERS_MAX]
    for query in (text[:500], text[-500:], " ".join(f"word{n}x" for n in range(60))):
        looked_into.clear()
        shown(text, query)
        assert len(looked_into) <= WINDOWS_MAX
        assert sum(looked_into) <= WINDOWS_MAX * WINDOW_CHARACTERS


@given(MIXED, MIXED, st.integers(0, 400))
def test_a_snippet_is_one_line_of_bounded_length(text: str, query: str, filler: int) -> None:
    found = shown("lorem ipsum " * filler + text + " dolor" * filler, query)
    assert "\n" not in found
    assert len(found.replace("**", "")) <= SNIPPET_CHARACTERS
    if filler > 50:
        assert "…" in found
