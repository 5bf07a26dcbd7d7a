"""Sections of the reference are numbered, and whatever cites one finds it."""

import re
from pathlib import Path

from tests.tidy.files import ROOT, files, texts

PAGES = sorted(files("ops/reference", suffix=".md"))
SECTION = re.compile(r"^## (\d+)\.(\d+) ", re.M)
# In code and documents `reference 1.2` and `reference 1.2, 3.4`, in the pages themselves `(1.2)`.
CITED = re.compile(r"[Rr]eference[\s#]+(\d+\.\d+(?:,[\s#]+\d+\.\d+)*)")
CITED_WITHIN = re.compile(r"[(|:,] ?(?:as in )?(\d{1,2}\.\d{1,2})(?=[),;:]| \|| says)")
# A section of the operator's book: `(running.md: Commands)`.
CITED_RUNNING = re.compile(r"\(running\.md:[\s#]+([^;)]+)")
HEADING = re.compile(r"^## (.+)$", re.M)


def sections(page: Path) -> list[tuple[int, int]]:
    found = SECTION.findall(page.read_text(encoding="utf-8"))
    return [(int(chapter), int(number)) for chapter, number in found]


def test_sections_count_up_within_their_page() -> None:
    chapters = [found[0][0] for found in map(sections, PAGES) if found]
    assert sorted(chapters) == list(range(1, len(chapters) + 1))
    for page in PAGES:
        found = sections(page)
        numbers = [number for _, number in found]
        assert numbers == list(range(1, len(found) + 1)), page
        assert len({chapter for chapter, _ in found}) <= 1, page


def test_what_is_cited_is_there() -> None:
    known = {f"{chapter}.{number}" for page in PAGES for chapter, number in sections(page)}
    running = set(HEADING.findall((ROOT / "ops/running.md").read_text(encoding="utf-8")))
    cited, headings = {}, {}
    for name, text in texts():
        if name == "tests/tidy/test_reference.py":
            continue
        for numbers in CITED.findall(text):
            cited.update(dict.fromkeys(re.findall(r"\d+\.\d+", numbers), name))
        for heading in CITED_RUNNING.findall(text):
            headings[" ".join(heading.replace("#", " ").split())] = name
    for page in PAGES:
        cited.update(
            dict.fromkeys(CITED_WITHIN.findall(page.read_text(encoding="utf-8")), page.name)
        )
    assert cited, "nothing cites a section"
    assert {number: name for number, name in cited.items() if number not in known} == {}
    assert {one: name for one, name in headings.items() if one not in running} == {}


def test_nothing_cites_what_is_not_in_the_project() -> None:
    elsewhere = re.compile(r"(?i:contract)( for media)? §|\(spec: (?!\w*Spec)[A-Z]|# Spec[,:] ")
    cited = [name for name, text in texts() if elsewhere.search(text)]
    assert [name for name in cited if name != "tests/tidy/test_reference.py"] == []
