"""What a channel promises of the data that it is sent, and what a call demands (reference 10.7).

A promise is the operator's statement of a contract; nothing here can prove it. What a channel does
not state it does not promise. A demand is written as `region=eu; retention=0`, in a header and in
the settings of keys and accounts alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

RETENTION_DAYS_MAX = 36_500
REGION_CHARACTERS_MAX = 32
# In an error, and as the constraint of the tables has it.
DEMAND_FORM = (
    "`region=NAME`, `retention=DAYS` or both, separated by `;`: a name of 1 to"
    f" {REGION_CHARACTERS_MAX} characters `a-z0-9-` that begins with a letter, whole days from 0 to"
    f" {RETENTION_DAYS_MAX}"
)

REGION = re.compile(rf"[a-z][a-z0-9-]{{0,{REGION_CHARACTERS_MAX - 1}}}")
_DAYS_DIGITS_MAX = len(str(RETENTION_DAYS_MAX))


class InvalidDemand(ValueError):
    """A text that is no demand; the message says what one is."""


class DataPromise(Struct, frozen=True, gc=False):
    """What a channel's upstream does with requests and responses; None: nothing is stated.

    `retention_days`: it keeps none of them longer. `region`: it neither keeps nor works on any of
    them elsewhere; a name that the operator has chosen.
    """

    retention_days: int | None = None
    region: str | None = None

    def __str__(self) -> str:
        regions = () if self.region is None else (self.region,)
        return "; ".join(_written(regions, self.retention_days))

    def __bool__(self) -> bool:
        return self.retention_days is not None or self.region is not None


NO_PROMISE = DataPromise()


class DataDemand(Struct, frozen=True):
    """What the channels of a call must have promised; None, and no regions: anything is taken.

    Several regions come of several demands, and no channel keeps them all.
    """

    retention_days: int | None = None
    regions: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return "; ".join(_written(sorted(self.regions), self.retention_days))

    def is_kept_by(self, promise: DataPromise) -> bool:
        """Whether a channel with this promise may serve the call."""
        if self.retention_days is not None:
            days = promise.retention_days
            if days is None or days > self.retention_days:
                return False
        return all(region == promise.region for region in self.regions)


def strictest(one: DataDemand | None, other: DataDemand | None) -> DataDemand | None:
    """Return the demand that holds where both do."""
    if one is None or other is None:
        return one or other
    days = [each for each in (one.retention_days, other.retention_days) if each is not None]
    return DataDemand(min(days, default=None), one.regions | other.regions)


def read_demand(text: str) -> DataDemand:
    """Read a demand as it is written. Raises InvalidDemand."""
    members: dict[str, str] = {}
    for pair in text.split(";", 2):
        name, separator, value = (part.strip(" \t") for part in pair.partition("="))
        if not separator or name in members:
            raise InvalidDemand(DEMAND_FORM)
        members[name] = value
    region, days = members.pop("region", None), members.pop("retention", None)
    if members or (region is not None and not REGION.fullmatch(region)):
        raise InvalidDemand(DEMAND_FORM)
    regions = frozenset(() if region is None else (region,))
    return DataDemand(None if days is None else _days(days), regions)


def _days(text: str) -> int:
    is_number = text.isascii() and text.isdigit() and len(text) <= _DAYS_DIGITS_MAX
    if not is_number or int(text) > RETENTION_DAYS_MAX:
        raise InvalidDemand(DEMAND_FORM)
    return int(text)


def _written(regions: Iterable[str], days: int | None) -> list[str]:
    parts = [f"region={region}" for region in regions]
    return parts if days is None else [*parts, f"retention={days}"]
