"""The frame of pages, whatever pages say."""

import re

from hypothesis import given
from hypothesis import strategies as st

from gw.agents.excerpts import NOTICE, Excerpt, cut, framed
from tests.support.rows import cases

TAGS = ("<reference_data", "</reference_data", "<page", "</page")
PIECES = (
    *TAGS,
    *"<>/\"'&; \n\t",
    "reference_data",
    "page",
    "PAGE",
    "\u200b",
    "\u00ad",
    "id=",
    "&lt;",
    "x",
    "知",
)
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
_UNSEEN = re.compile("[\u200b\u00ad]")


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_page_closes_the_frame_or_opens_another(
    kb_id: str, page_id: str, title: str, body: str
) -> None:
    page = Excerpt(kb_id, page_id, title, body)
    text = framed([page, Excerpt("kb", "id", "t", "plain")])
    assert text.startswith(f'<reference_data>\n{NOTICE}\n<page id="')
    assert text.endswith("\nplain\n</page>\n</reference_data>")
    seen = _UNSEEN.sub("", text).casefold()
    tags = re.findall(r"<\s*/?\s*(?:reference_data|page)(?![a-z0-9])", seen)
    assert ["".join(tag.split()) for tag in tags] == [
        "<reference_data",
        "<page",
        "</page",
        "<page",
        "</page",
        "</reference_data",
    ]
    quotes = text.partition("\nplain")[0].count('"')
    assert quotes - body.count('"') == 12  # those of the attributes, and no more


@cases("text", "a < b, <b>, <pages>, <pagex", "page>", "< p a g", "<reference>", "&lt;page")
def test_what_is_no_tag_of_the_frame_stays_as_it_is(text: str) -> None:
    assert f"\n{text}\n</page>" in framed([Excerpt("k", "i", "t", text)])


def test_pages_are_cut_to_a_length_together() -> None:
    pages = [Excerpt("k", name, name, "x" * 10) for name in "abc"]
    assert [len(page.body) for page in cut(pages, 100)] == [10, 10, 10]
    assert [len(page.body) for page in cut(pages, 15)] == [10, 5]
    assert [page.id for page in cut(pages, 10)] == ["a"]
    empty = [Excerpt("k", "e", "e", ""), *pages]
    assert [page.id for page in cut(empty, 1)] == ["e", "a"]


def test_long_pages_are_escaped_in_time_that_grows_with_them() -> None:
    # What would go back and forth over them takes minutes for these.
    for piece in ("< ", "<\u200b", "<p\u200b", "</" + " " * 50, "<"):
        framed([Excerpt("k", "i", "t", piece * 100_000)])
