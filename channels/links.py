"""Links to results: which text is one, and when a pre-signed one expires.

Storages write the expiry into the query: a lifetime with the date of signing (X-Amz-Expires and
similar ones), an instant in Unix seconds (Expires), or an instant as text (se).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

# Longer texts are not links, or contain the file itself.
LINK_CHARACTERS_MAX = 8192
# A stated expiry is accepted within this bound; storages sign for a week at most.
LASTS_SECONDS_MAX = 366 * 86_400.0
_SIGNED_AT = "%Y%m%dT%H%M%SZ"


def expires_at(url: str) -> float | None:
    """Return the expiry in Unix seconds; None if the link does not state it in a known form."""
    try:
        query = {name.lower(): value for name, value in parse_qsl(urlsplit(url).query)}
        for name, value in query.items():
            maker, _, last = name.rpartition("-")
            if last == "expires" and maker.startswith("x-") and (at := query.get(f"{maker}-date")):
                return _signed(at) + float(int(value))
        if "expires" in query:
            return float(int(query["expires"]))
        if "se" in query and "sig" in query:
            at_end = datetime.fromisoformat(query["se"])
            return (at_end if at_end.tzinfo else at_end.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    return None


def is_link(text: str) -> bool:
    """Whether the text is an address to fetch from."""
    return (
        text[:8].lower().startswith(("http://", "https://"))
        and len(text) <= LINK_CHARACTERS_MAX
        and text.isprintable()
        and " " not in text
    )


def lasts_until(urls: Sequence[str], *, now: float, usual_seconds: float) -> float | None:
    """Return the first expiry of these links; a link that states none has the usual lifetime.

    None without links.
    """
    return min((_end(url, now, usual_seconds) for url in urls), default=None)


def _end(url: str, now: float, usual_seconds: float) -> float:
    stated = expires_at(url)
    if stated is None or not now < stated <= now + LASTS_SECONDS_MAX:
        return now + usual_seconds
    return stated


def _signed(at: str) -> float:
    return datetime.strptime(at, _SIGNED_AT).replace(tzinfo=UTC).timestamp()
