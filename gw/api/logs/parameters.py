"""Reads the parameters of a query: each present once, empty counts as absent (spec: Call logs, 1).

What a parameter means is its reader's business; here a text becomes one of several words, a list of
words or a number, or a 400 that names the parameter and what it takes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from gw.errors.table import INVALID_REQUEST, GatewayError
from metrics.redact import redact

TEXT_CHARACTERS_MAX = 4000
WORDS_MAX = 100
SHOWN_CHARACTERS_MAX = 60


def refuse(name: str, why: str) -> GatewayError:
    """The 400 for a parameter."""
    return GatewayError(INVALID_REQUEST, f"`{name}` {why}", param=name)


def quoted(text: str) -> str:
    """What the client sent, as an error message repeats it."""
    shown = redact(text)
    return repr(shown[:SHOWN_CHARACTERS_MAX] + ("…" if len(shown) > SHOWN_CHARACTERS_MAX else ""))


class Parameters:
    """The query of one request. Unknown parameters are ignored. All methods raise 400."""

    def __init__(self, query: Mapping[str, Sequence[bytes]]) -> None:
        self._query = query

    def text(self, name: str) -> str | None:
        """The one value of a parameter, without white space around it; None when there is none."""
        values = list(dict.fromkeys(self._values(name)))
        if len(values) > 1:
            raise refuse(name, "is given more than once.")
        return values[0] if values else None

    def words(self, name: str) -> tuple[str, ...]:
        """The values of a comma-separated list, each once; a repeated parameter adds to it."""
        found = dict.fromkeys(
            word.strip() for value in self._values(name) for word in value.split(",")
        )
        found.pop("", None)
        if len(found) > WORDS_MAX:
            raise refuse(name, f"takes at most {WORDS_MAX} values.")
        return tuple(found)

    def choice(self, name: str, allowed: Collection[str]) -> str | None:
        """One of the allowed words; None when there is none."""
        value = self.text(name)
        if value is not None and value not in allowed:
            raise _unknown(name, value, allowed)
        return value

    def choices(self, name: str, allowed: Collection[str]) -> tuple[str, ...]:
        """A list of allowed words."""
        values = self.words(name)
        for value in values:
            if value not in allowed:
                raise _unknown(name, value, allowed)
        return values

    def whole(self, name: str, *, least: int, most: int) -> int | None:
        """A whole number within bounds; None when there is none."""
        value = self.text(name)
        if value is None:
            return None
        # More digits than the bound has cannot be within it, and are not worth reading.
        is_number = value.isascii() and value.isdigit() and len(value) <= 10
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
