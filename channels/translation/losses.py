"""What a translation could not say: field names, in the client's own spelling.

The gateway shows them in `X-Protocol-Warning`, or refuses the call for them when the client asked
to be strict (spec: Translation paths). Which fields a target lacks is each encoder's knowledge; how
the client's protocol spells them is `field_names.py`.
"""

from __future__ import annotations

import re

# A client's unknown members are named in a response header: no name may break it or fill it.
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]$@-]")
NAME_CHARACTERS_MAX = 80
NAMES_MAX = 40


class LossReport:
    """Fields dropped or changed by one translation, each once, in the order they were met."""

    __slots__ = ("_fields", "_more")

    def __init__(self) -> None:
        self._fields: dict[str, None] = {}  # a set that keeps its order
        self._more = 0  # fields of which only the number is kept

    def __repr__(self) -> str:
        return f"<LossReport {self.warning() or 'nothing dropped'}>"

    @property
    def dropped(self) -> list[str]:
        """The fields, of a shortened report the first of them."""
        return list(self._fields)

    def shortened(self) -> LossReport:
        """Return a report with no more names than a warning has room for."""
        short = LossReport()
        short._fields = dict.fromkeys(self.dropped[:NAMES_MAX])
        short._more = self._more + len(self._fields) - len(short._fields)
        return short

    def drop(self, field: str) -> None:
        """Note a field as the client spells it, e.g. `response_format` or `tools.web_search`."""
        self._fields[_UNFIT.sub("_", field[:NAME_CHARACTERS_MAX])] = None

    def warning(self) -> str | None:
        """The value of `X-Protocol-Warning`; None when nothing was dropped.

        Printable ASCII. Beyond 40 names the rest is counted only.
        """
        if not self._fields:
            return None
        names = self.dropped[:NAMES_MAX]
        more = self._more + len(self._fields) - len(names)
        return "; ".join([*names, f"{more} more"] if more else names)
