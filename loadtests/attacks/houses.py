"""A gateway with all it needs, in a house of its own, for one attack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.folders import temporary_folder
from tests.support.house import House, house
from tests.support.postgres import TEMPLATE, running_postgres


@contextmanager
def fresh_house(*, template: str = TEMPLATE, **how: Any) -> Iterator[House]:
    """Gone afterwards, when its ledger was verified; `how` is as `house` has it."""
    with (
        temporary_folder() as folder,
        running_postgres(folder) as postgres,
        postgres.database(template=template) as url,
        temporary_folder() as place,
        house(url, place, **how) as built,
    ):
        yield built
