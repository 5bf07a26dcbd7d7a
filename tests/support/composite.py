"""Reads PostgreSQL's text form of an array of rows, as the fake ledger is sent it."""

from collections.abc import Iterator


def read_rows(text: str | None) -> list[list[str | None]]:
    """`{"(a,b)","(c,)"}` as lists of values, None where there is none."""
    if text is None or text == "{}":
        return []
    assert (text[0], text[-1]) == ("{", "}"), text
    rows = []
    for row in _split(text[1:-1]):
        assert row is not None
        assert (row[0], row[-1]) == ("(", ")"), row
        rows.append(list(_split(row[1:-1])))
    return rows


def _split(text: str) -> Iterator[str | None]:
    """What stands between commas, out of its quotes and escapes."""
    item, is_quoted, was_quoted = "", False, False
    letters = iter(text)
    for letter in letters:
        if letter == "\\":
            item += next(letters)
        elif letter == '"':
            is_quoted, was_quoted = not is_quoted, True
        elif letter == "," and not is_quoted:
            yield item if item or was_quoted else None
            item, was_quoted = "", False
        else:
            item += letter
    assert not is_quoted, text
    yield item if item or was_quoted else None
