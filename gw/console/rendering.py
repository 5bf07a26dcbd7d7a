"""Values as texts of a page: amounts, numbers, instants and states."""

from __future__ import annotations

from datetime import UTC, datetime

from actors.wallet.money import format_usd
from gw.console.texts import TEXTS
from gw.instants import format_instant
from gw.nouns.member import Member


def usd_text(nano_usd: int) -> str:
    """Return an amount in full, with at least two decimals."""
    whole, _, decimals = format_usd(abs(nano_usd)).partition(".")
    sign = "−" if nano_usd < 0 else ""
    return f"{sign}{int(whole):,}.{decimals.ljust(2, '0')}"


class Renderer:
    """Renders values in a page."""

    def usd(self, nano_usd: int | None) -> str:
        """Return an amount in full; None is a dash."""
        return "–" if nano_usd is None else usd_text(nano_usd)

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
        text = format_instant(moment, timespec="milliseconds")
        shown = moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f'<time datetime="{text}">{shown}</time>'

    def state(self, word: str) -> str:
        """Return the text of a state."""
        return TEXTS.get(f"state.{word}", word)

    def member(self, page: str, member: Member) -> str:
        """Return the label of a form's field: the page's text, or else the member's name."""
        return TEXTS.get(f"{page}.{member.form}", member.name.replace("_", " ").capitalize())

    def word(self, page: str, word: str) -> str:
        """Return the text of a choice."""
        return TEXTS.get(f"{page}.{word}", word)

    def null(self, page: str, member: Member) -> str:
        """Return what an empty field of a form means."""
        return TEXTS.get(f"{page}.no_{member.form}", "")
