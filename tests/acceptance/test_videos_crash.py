"""`kill -9` at scripted points of a film's life: it ends once, with one row, paid or refunded."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.films import SECOND, SETTINGS, TEXT, VIDEOS, posted
from tests.support.covering import covering

pytestmark = pytest.mark.long

USD = 10**9
FILM = {"model": "film", "content": [TEXT], "duration": 4}

BLOCK = """
CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END $$;
CREATE TRIGGER wait BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION wait();
SELECT pg_advisory_lock(1)
"""
WAITING = """SELECT pid FROM pg_locks JOIN pg_database d ON d.oid = database
             WHERE NOT granted AND locktype = 'advisory' AND d.datname = current_database()"""
BEGUN = "SELECT xact_start AS at FROM pg_stat_activity WHERE pid IN ({})"

# What is being written when the process is killed, by the table that it stands in.
POINTS = {
    "before its upstream is asked": "jobs",
    "before it is known that its upstream took it": "job_polls",
    "between its upstream's success and its settlement": "call_logs",
}


@contextmanager
def studio(database_url: str, folder: Path) -> Iterator[Deployment]:
    """A deployment that makes films; its ledger is verified at the end."""
    with deployment(database_url, folder, is_funded=False, **SETTINGS) as h:
        yield h


@contextmanager
def blocked(h: Deployment, table: str) -> Iterator[Any]:
    """Nothing can be put into a table; what tries waits."""
    connection = psycopg2.connect(h.settings["database_url"])
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(BLOCK.format(table=table))
        yield connection
    finally:
        connection.close()


def lose(h: Deployment, connection: Any) -> None:
    """The statements that wait never reach the database."""
    with connection.cursor() as cursor:
        for found in h.query(WAITING):
            cursor.execute("SELECT pg_terminate_backend(%s)", (found["pid"],))


def all_end_once(h: Deployment, tenant: Tenant, granted: int = USD) -> Counter[str]:
    """Every job ends, with one row and its money; how many ended in which state."""

    def have_ended() -> bool:
        (open_jobs,) = h.query("SELECT count(*) FROM jobs WHERE ended_at IS NULL")
        (holds,) = h.query("SELECT count(*) FROM holds")
        return not open_jobs["count"] and not holds["count"]

    until(have_ended, what="the end of every job")
    jobs = h.query("SELECT call_id, state::text FROM jobs")
    rows = h.query("SELECT request_id, cost_nano_usd FROM call_logs WHERE status <> 'rejected'")
    assert Counter(row["request_id"] for row in rows) == Counter(job["call_id"] for job in jobs)
    paid = sum(row["cost_nano_usd"] for row in rows)
    assert paid == 4 * SECOND * sum(job["state"] == "succeeded" for job in jobs)
    (account,) = h.query("SELECT * FROM accounts WHERE id = %s", tenant.account)
    assert (account["balance_nano_usd"], account["held_nano_usd"]) == (granted - paid, 0)
    return Counter(job["state"] for job in jobs)


# Each point with both statements; whether a neighbour goes on takes turns.
KILLS = covering(
    list(product(POINTS, ["is lost", "arrives"], [1, 2])),
    itemgetter(0, 1),
    itemgetter(0, 2),
    itemgetter(1, 2),
)


@pytest.mark.parametrize(("point", "statement", "gateways"), KILLS)
def test_film_whose_process_is_killed_ends_once(
    point: str, statement: str, gateways: int, database_url: str, tmp_path: Path
) -> None:
    table = POINTS[point]
    with studio(database_url, tmp_path) as h:
        second = GatewayProcess(h.config) if gateways == 2 else None
        tenant = h.tenant()
        h.upstream.fault("one", task_seconds=0.1, real_seconds=4)
        with blocked(h, table) as connection, tenant.client.begin("POST", VIDEOS, FILM):
            until(lambda: h.query(WAITING), what="what is killed is under way")
            if second is not None:
                with closing(second):
                    h.gateway.kill()
                    finish(h, connection, statement)
                    states = all_end_once(h, tenant)
                    assert second.terminate() == 0
            else:
                h.gateway.kill()
                finish(h, connection, statement)
                h.gateway.close()
                h.start()
                states = all_end_once(h, tenant)
        if table == "call_logs":
            assert states == {"succeeded": 1}
        elif table == "job_polls":
            assert states == {"failed" if statement == "is lost" else "succeeded": 1}
        else:
            assert states in ({}, {"failed": 1})
        assert len(posted(h)) == (table != "jobs")


def finish(h: Deployment, connection: Any, statement: str) -> None:
    """Let what waits be lost, or arrive; return once the database has done with it."""
    waiting = [found["at"] for found in h.query(BEGUN.format(WAITING))]
    if statement == "is lost":
        lose(h, connection)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(1)")
    until(
        lambda: not h.query("SELECT FROM pg_stat_activity WHERE xact_start = ANY (%s)", waiting),
        what="the end of what the killed process has sent",
    )
