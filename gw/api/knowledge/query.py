"""The query of a request to a knowledge base: unchanged texts, integers, ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gw.api.logs.parameters import quoted, refuse

QUERY_CHARACTERS_MAX = 500
LIMIT_DEFAULT, LIMIT_MAX = 20, 50
# Above the pages of any base; with a window, within PostgreSQL's integers.
OFFSET_MAX = 10**9
IDS_MAX = 25

Query = Mapping[str, Sequence[bytes]]


def text(query: Query, name: str) -> str:
    """Return the one value of a parameter, unchanged; empty if absent. Raises 400."""
    values = list(dict.fromkeys(query.get(name, ())))
    if len(values) > 1:
        raise refuse(name, "is given more than once.")
    try:
        return values[0].decode() if values else ""
    except UnicodeDecodeError:
        raise refuse(name, "is not UTF-8.") from None


def search_text(query: Query) -> str:
    """Return the search text. Raises 400."""
    found = text(query, "q")
    if not found.strip():
        raise refuse("q", "is required: the words to search for.")
    if len(found) > QUERY_CHARACTERS_MAX:
        raise refuse("q", f"has more than {QUERY_CHARACTERS_MAX} characters.")
    return found


def limit_of(query: Query) -> int:
    """Return the number of hits, at most LIMIT_MAX. Raises 400."""
    return min(_whole(query, "limit", least=1, default=LIMIT_DEFAULT), LIMIT_MAX)


def offset_of(query: Query) -> int:
    """Return the number of hits to skip. Raises 400."""
    return min(_whole(query, "offset", least=0, default=0), OFFSET_MAX)


def ids(query: Query) -> list[str]:
    """Return the first IDS_MAX distinct ids of a list. Raises 400 if it is empty."""
    found = dict.fromkeys(one.strip() for one in text(query, "ids").split(","))
    found.pop("", None)
    if not found:
        raise refuse("ids", "is required: the ids of pages, separated by commas.")
    return list(found)[:IDS_MAX]


def _whole(query: Query, name: str, *, least: int, default: int) -> int:
    value = text(query, name).strip()
    if not value:
        return default
    digits = value.removeprefix("+").lstrip("0") or "0"
    # A number of more digits is above every bound, and is not parsed.
    number = -1
    if value != "+" and digits.isascii() and digits.isdigit():
        number = int(digits) if len(digits) <= 10 else OFFSET_MAX
    if number < least:
        raise refuse(name, f"is a whole number from {least} on, not {quoted(value)}.")
    return number
