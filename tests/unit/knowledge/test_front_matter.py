"""The head of a page, as a hostile file may have it."""

from gw.knowledge.front_matter import DEPTH_MAX
from gw.knowledge.pages import (
    HEAD_CHARACTERS_MAX,
    HEADING_CHARACTERS_MAX,
    FolderFault,
    parse_page,
)
from tests.support.rows import cases


@cases(
    "opening, closing", ("[", "]"), ("{a: ", "}"), ("[&a ", "]"), ("- ", ""), ("? ", ""), ("[", "")
)
def test_head_with_too_many_levels_is_a_fault(opening: str, closing: str) -> None:
    """A hundred thousand of them would end the process, inside the library."""
    levels = DEPTH_MAX + 1
    faults: list[FolderFault] = []
    head = opening * levels + "a" + closing * levels
    parse_page("a.md", f"---\n{head}\n---\nText.\n".encode(), faults, [])
    assert [fault.text for fault in faults] == [
        f"the front matter has more than {DEPTH_MAX} levels"
    ]


def test_what_lists_show_of_a_page_is_bounded() -> None:
    faults: list[FolderFault] = []
    summary = "a" * HEAD_CHARACTERS_MAX
    assert parse_page("a.md", f"---\nsummary: {summary}\n---\n".encode(), faults, []) is None
    (fault,) = faults
    assert "at most" in fault.text
    page = parse_page("a.md", f"# {summary}\n".encode(), faults, [])
    assert page is not None
    assert len(page.title) == HEADING_CHARACTERS_MAX
