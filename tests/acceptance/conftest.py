"""Fixtures of the acceptance tests: a house, its simulator clean for each test, and a tenant.

Modules share the house of `common.py`. One that has `SETTINGS`, the settings of a `gw.yaml`, gets a
house of its own; `EXPECTED_LOG` says which errors its gateway may log.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.acceptance.common import SETTINGS
from tests.support.house import House, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.waiting import until


@pytest.fixture(scope="session")
def common(postgres: PostgresForTests) -> Iterator[House]:
    """The house that most modules share."""
    with shared_house(postgres, **SETTINGS) as built:
        yield built


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, postgres: PostgresForTests) -> Iterator[House]:
    """The house of this module."""
    settings = getattr(request.module, "SETTINGS", None)
    if settings is None:
        yield request.getfixturevalue("common")
        return
    expected_log = getattr(request.module, "EXPECTED_LOG", ())
    with shared_house(postgres, expected_log=expected_log, **settings) as built:
        yield built


@pytest.fixture
def h(shared: House) -> House:
    """The house of this module, its simulator without faults and its counters at zero."""
    shared.upstream.wait(active=0)
    has_tasks = shared.upstream.stats()["tasks"] > 0
    shared.upstream.reset()
    if has_tasks:  # one that a test has left open is polled until it fails: it is forgotten now
        until(lambda: shared.query("SELECT count(*) AS n FROM job_polls")[0]["n"] == 0, what="ends")
        shared.upstream.reset()
    return shared


@pytest.fixture
def tenant(h: House) -> Tenant:
    """An account with one USD, and a key that may do everything."""
    return h.tenant()
