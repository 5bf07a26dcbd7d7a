"""What a list is narrowed to, row by row (spec: Call logs, query parameters)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from channels.families import UNITS
from gw.api.logs.parameters import Parameters, refuse

STATUSES = ("success", "error", "interrupted", "rejected")
# Of rows billed by the piece; `chat` stands for those billed by tokens, which have none.
UNIT_TYPES = tuple(unit.name for unit in UNITS)
TOKEN_BILLED = "chat"
ROW_FILTERS = ("model", "status", "unit_type", "error_code", "ref")

_TRACE = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Each is passed by a row that has one of its values; an empty one by every row."""

    models: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    unit_types: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    ref: str | None = None  # of one row: its task id or its request id

    @property
    def is_narrow(self) -> bool:
        """Whether any of the lists is there."""
        return bool(self.models or self.statuses or self.unit_types or self.error_codes)

    @property
    def trace(self) -> UUID | None:
        """`ref` as a request id: 32 hex digits, or the same as a UUID is usually written."""
        if self.ref is None or _TRACE.fullmatch(self.ref) is None:
            return None
        return UUID(self.ref)


def read_filters(parameters: Parameters) -> Filters:
    """The filters of a list. Raises 400."""
    return Filters(
        models=parameters.words("model"),
        statuses=parameters.choices("status", STATUSES),
        unit_types=parameters.choices("unit_type", (*UNIT_TYPES, TOKEN_BILLED)),
        error_codes=parameters.words("error_code"),
        ref=parameters.text("ref"),
    )


def refuse_filters(parameters: Parameters) -> None:
    """400 for any of them, on the summary."""
    for name in ROW_FILTERS:
        if parameters.words(name):
            raise refuse(name, "narrows a list of rows; the summary takes no such filter.")
