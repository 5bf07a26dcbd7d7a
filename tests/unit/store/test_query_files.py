"""Query files: what is read, and what is refused."""

import pytest

from actors.store.queries import QueryFileFault, load, parse
from tests.support.rows import cases

GOOD = """
-- Queries of nothing in particular.

-- first --
-- Say one.
SELECT 1

-- second --
-- Say two, with a comment inside.
-- It may go on.
SELECT 2  -- two
  , 3
"""


def test_file_with_two_queries_gives_both_by_name() -> None:
    queries = parse(GOOD, "good.sql")
    assert list(queries) == ["first", "second"]
    assert queries["first"] == "SELECT 1"
    assert queries["second"].endswith("SELECT 2  -- two\n  , 3")


def test_file_of_a_package_is_found() -> None:
    assert "balance" in load("actors.wallet", "ledger.sql")


@cases(
    "text, fault",
    ("SELECT 0\n-- a --\n-- A.\nSELECT 1\n", "before the first"),
    ("-- a --\nSELECT 1\n", "what it is for"),
    ("-- a --\n-- A.\n", "no SQL"),
    ("-- a --\n-- A.\n-- still nothing\n\n", "no SQL"),
    ("-- a --\n-- A.\nSELECT 1\n-- a --\n-- A.\nSELECT 2\n", "twice"),
)
def test_badly_written_file_is_refused(text: str, fault: str) -> None:
    with pytest.raises(QueryFileFault, match=fault):
        parse(text, "bad.sql")
