"""The query of a request to a knowledge base: texts as they were sent, whole numbers, ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gw.api.logs.parameters import quoted, refuse

QUERY_CHARACTERS_MAX = 500
LIMIT_DEFAULT, LIMIT_MAX = 20, 50
# More than any base has pages, and with a window within what PostgreSQL counts with.
OFFSET_MAX = 10**9
IDS_MAX = 25

Query = Mapping[str, Sequence[bytes]]


def text(query: Query, name: str) -> str:
    """The one value of a parameter as it was sent; empty where it is absent. Raises 400."""
    values = list(dict.fromkeys(query.get(name, ())))
    if len(values) > 1:
        raise refuse(name, "is given more than once.")
    try:
        return values[0].decode() if values else ""
    except UnicodeDecodeError:
        raise refuse(name, "is not UTF-8.") from None


def search_text(query: Query) -> str:
    """What is searched for. Raises 400."""
    found = text(query, "q")
    if not found.strip():
        raise refuse("q", "is required: the words to search for.")
    if len(found) > QUERY_CHARACTERS_MAX:
        raise refuse("q", f"has more than {QUERY_CHARACTERS_MAX} characters.")
    return found


def limit(query: Query) -> int:
    """How many hits are shown; more than LIMIT_MAX is LIMIT_MAX. Raises 400."""
    return min(_whole(query, "limit", least=1, default=LIMIT_DEFAULT), LIMIT_MAX)


def offset(query: Query) -> int:
    """How many hits come before the first that is shown. Raises 400."""
    return min(_whole(query, "offset", least=0, default=0), OFFSET_MAX)


def ids(query: Query) -> list[str]:
    """The first IDS_MAX ids of a list, each once. Raises 400 when there is none."""
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
    # A number of more digits is larger than any that matters, and not worth reading.
    number = -1
    if value != "+" and digits.isascii() and digits.isdigit():
        number = int(digits) if len(digits) <= 10 else OFFSET_MAX
    if number < least:
        raise refuse(name, f"is a whole number from {least} on, not {quoted(value)}.")
    return number
