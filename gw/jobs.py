"""Asynchronous jobs as this gateway runs them: made of the configuration, wired to the rest."""

from __future__ import annotations

import random

from actors.clock import Clock
from actors.jobs.jobs import Jobs
from actors.jobs.schedule import Schedule
from actors.store.database import Database
from gw.config.config import Tasks
from metrics.prometheus import Metrics


def make_jobs(tasks: Tasks, database: Database, clock: Clock, metrics: Metrics) -> Jobs:
    """The jobs that endpoints begin and show."""
    schedule = Schedule(
        first_seconds=tasks.poll_first,
        factor=float(tasks.poll_factor),
        max_seconds=tasks.poll_max,
    )
    return Jobs(
        database=database,
        schedule=schedule,
        deadline_seconds=tasks.deadline,
        chance=random.random,
        clock=clock,
        metrics=metrics,
    )
