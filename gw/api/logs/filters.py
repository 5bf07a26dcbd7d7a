"""The filters of a list, applied row by row (reference 6.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from channels.family import UNITS
from gw.api.logs.parameters import Parameters, refuse

STATUSES = ("success", "error", "interrupted", "rejected")
# The unit types of rows billed by the piece; `chat` selects rows billed by tokens, without one.
UNIT_TYPES = tuple(unit.name for unit in UNITS)
TOKEN_BILLED = "chat"
ROW_FILTERS = ("model", "status", "unit_type", "error_code", "ref")

_TRACE = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The values that pass, by member; an empty member passes every row."""

    models: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    unit_types: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    ref: str | None = None  # of one row: its task id or request id

    @property
    def is_narrow(self) -> bool:
        """Whether any list is given."""
        return bool(self.models or self.statuses or self.unit_types or self.error_codes)

    @property
    def trace(self) -> UUID | None:
        """`ref` as a request id: 32 hex digits, or the usual form of a UUID."""
        if self.ref is None or _TRACE.fullmatch(self.ref) is None:
            return None
        return UUID(self.ref)


def read_filters(parameters: Parameters) -> Filters:
    """Return the filters of a list. Raises 400."""
    return Filters(
        models=parameters.words("model"),
        statuses=parameters.choices("status", STATUSES),
        unit_types=parameters.choices("unit_type", (*UNIT_TYPES, TOKEN_BILLED)),
        error_codes=parameters.words("error_code"),
        ref=parameters.text("ref"),
    )


def refuse_filters(parameters: Parameters) -> None:
    """Raise 400 for any filter, on the summary."""
    for name in ROW_FILTERS:
        if parameters.words(name):
            raise refuse(name, "narrows a list of rows; the summary takes no such filter.")
