"""Values as texts of a page: amounts, numbers, instants and states."""

from __future__ import annotations

from datetime import UTC, datetime

from gw.console.texts import TEXTS


class Renderer:
    """Renders values in a page."""

    def usd(self, nano_usd: int | None) -> str:
        """Return an amount in full, with at least two decimals."""
        if nano_usd is None:
            return "–"
        sign = "−" if nano_usd < 0 else ""
        whole, fraction = divmod(abs(nano_usd), 1_000_000_000)
        decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")
        return f"{sign}{whole:,}.{decimals}"

    def column(self, nano_usd: int | None) -> str:
        """Return an amount for a column, with decimal points aligned."""
        text = self.usd(nano_usd)
        return text + "\u2007" * (9 - len(text.partition(".")[2])) if "." in text else text

    def count(self, number: int | None) -> str:
        """Return an integer with separators."""
        return "–" if number is None else f"{number:,}"

    def instant(self, at: datetime | float | None) -> str:
        """Return an instant as an element that the script converts to the reader's zone."""
        if at is None:
            return "–"
        moment = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
        text = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        shown = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f'<time datetime="{text}">{shown}</time>'

    def state(self, word: str) -> str:
        """Return the text of a state."""
        return TEXTS.get(f"state.{word}", word)
