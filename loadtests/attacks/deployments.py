"""A gateway with all it needs, in a deployment of its own, for one attack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import TEMPLATE, running_postgres


@contextmanager
def fresh_deployment(*, template: str = TEMPLATE, **how: Any) -> Iterator[Deployment]:
    """Gone afterwards, when its ledger was verified; `how` is as `deployment` has it."""
    with (
        temporary_folder() as folder,
        running_postgres(folder) as postgres,
        postgres.database(template=template) as url,
        temporary_folder() as place,
        deployment(url, place, **how) as built,
    ):
        yield built
