"""What a translation could not say: field names, in the client's own spelling.

The gateway shows them in `X-Protocol-Warning`, or refuses the call for them when the client asked
to be strict (spec: Translation paths). Which fields a target lacks is each encoder's knowledge; how
the client's protocol spells them is `spelling.py`.
"""

from __future__ import annotations

import re

# A client's unknown members are named in a response header: no name may break it or fill it.
_UNFIT = re.compile(r"[^A-Za-z0-9_.\[\]$@-]")
_NAME_CHARACTERS_MAX = 80
_NAMES_MAX = 40


class Report:
    """Fields dropped or changed by one translation, each once, in the order they were met."""

    __slots__ = ("dropped",)

    def __init__(self) -> None:
        self.dropped: list[str] = []

    def __repr__(self) -> str:
        return f"<Report {'; '.join(self.dropped) or 'nothing dropped'}>"

    def drop(self, field: str) -> None:
        """Note a field as the client spells it, e.g. `response_format` or `tools.web_search`."""
        name = _UNFIT.sub("_", field)[:_NAME_CHARACTERS_MAX]
        if name not in self.dropped:
            self.dropped.append(name)

    def warning(self) -> str | None:
        """The value of `X-Protocol-Warning`; None when nothing was dropped.

        Printable ASCII. Beyond 40 names the rest is counted only.
        """
        if not self.dropped:
            return None
        names = self.dropped[:_NAMES_MAX]
        if len(self.dropped) > _NAMES_MAX:
            names = [*names, f"{len(self.dropped) - _NAMES_MAX} more"]
        return "; ".join(names)
