"""Parses query parameters: each at most once, an empty one counts as absent (reference 6.3).

The functions below give parameters their meaning; here a text becomes one of several words, a
list of words or a number, or a 400 that names the parameter and its valid values.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gw.errors import INVALID_REQUEST, GatewayError
from metrics.log_redaction import redact

TEXT_CHARACTERS_MAX = 4000
WORDS_MAX = 100
SHOWN_CHARACTERS_MAX = 60


def refuse(name: str, why: str) -> GatewayError:
    """Return the 400 for a parameter."""
    return GatewayError(INVALID_REQUEST, f"`{name}` {why}", param=name)


def quoted(text: str) -> str:
    """Return the client's text as an error message repeats it."""
    shown = redact(text)
    return repr(shown[:SHOWN_CHARACTERS_MAX] + ("…" if len(shown) > SHOWN_CHARACTERS_MAX else ""))


class Parameters:
    """The query of one request. Unknown parameters are ignored. All methods raise 400."""

    def __init__(self, query: Mapping[str, Sequence[bytes]]) -> None:
        self._query = query

    def text(self, name: str) -> str | None:
        """Return the one value of a parameter without surrounding white space, or None."""
        values = list(dict.fromkeys(self._values(name)))
        if len(values) > 1:
            raise refuse(name, "is given more than once.")
        return values[0] if values else None

    def words(self, name: str) -> tuple[str, ...]:
        """Return the distinct values of a comma-separated list; a repeated parameter extends it."""
        found = dict.fromkeys(
            word.strip() for value in self._values(name) for word in value.split(",")
        )
        found.pop("", None)
        if len(found) > WORDS_MAX:
            raise refuse(name, f"takes at most {WORDS_MAX} values.")
        return tuple(found)

    def count(self, name: str) -> int:
        """Return how many values a parameter has that are not empty."""
        return len(self._values(name))

    def beginning(self, prefix: str) -> tuple[str, ...]:
        """Return the names of parameters that begin so and have a value."""
        return tuple(name for name in self._query if name.startswith(prefix) and self._values(name))

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """Return one of the allowed words, or None."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise _unknown(name, value, allowed)
        return value

    def choices(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """Return a list of allowed words."""
        values = self.words(name)
        for value in values:
            if value not in allowed:
                raise _unknown(name, value, allowed)
        return values

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """Return an integer within bounds, or None."""
        value = self.text(name)
        if value is None:
            return None
        # More digits than those of the bound exceed it, and are not parsed.
        is_number = value.isascii() and value.isdigit() and len(value) <= max(10, len(str(most)))
        if not is_number or not least <= int(value) <= most:
            raise refuse(name, f"is a whole number from {least} to {most}, not {quoted(value)}.")
        return int(value)

    def _values(self, name: str) -> list[str]:
        found = []
        for raw in self._query.get(name, ()):
            try:
                value = raw.decode().strip()
            except UnicodeDecodeError:
                raise refuse(name, "is not UTF-8.") from None
            if len(value) > TEXT_CHARACTERS_MAX:
                raise refuse(name, f"has more than {TEXT_CHARACTERS_MAX} characters.")
            if not value.isprintable():
                raise refuse(name, "has characters that cannot be printed.")
            if value:
                found.append(value)
        return found


def _unknown(name: str, value: str, allowed: Collection[str]) -> GatewayError:
    return refuse(name, f"takes {', '.join(allowed)}; {quoted(value)} is none of them.")
