"""Fixtures of the acceptance tests: a house, its simulator clean for each test, and a tenant.

Modules share the house of `common.py`. One that has `SETTINGS`, the settings of a `gw.yaml`, gets a
house of its own, unless they are one of `SHARED`: those modules have one house together.
`EXPECTED_LOG` says which errors its gateway may log.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from openai import OpenAI

from tests.acceptance import agents, common, pictures, sounds, translated
from tests.support.house import House, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant
from tests.support.waiting import until

# Their modules change no configuration.
SHARED = (common.SETTINGS, agents.SETTINGS, pictures.SETTINGS, sounds.SETTINGS, translated.SETTINGS)


@pytest.fixture(scope="session")
def houses(postgres: PostgresForTests) -> Iterator[Callable[[int], House]]:
    """The houses that modules share, by their place in `SHARED`, each made when it is needed."""
    built: dict[int, House] = {}
    with ExitStack() as stack:

        def house_at(place: int) -> House:
            if place not in built:
                built[place] = stack.enter_context(shared_house(postgres, **SHARED[place]))
            return built[place]

        yield house_at


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest, postgres: PostgresForTests, houses: Callable[[int], House]
) -> Iterator[House]:
    """The house of this module."""
    settings: dict[str, Any] = getattr(request.module, "SETTINGS", common.SETTINGS)
    expected_log = getattr(request.module, "EXPECTED_LOG", ())
    places = [place for place, one in enumerate(SHARED) if one is settings]
    if places and not expected_log:
        yield houses(places[0])
        return
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


@pytest.fixture
def sdk(h: House, tenant: Tenant) -> Iterator[OpenAI]:
    """The official library with the tenant's key, which tries nothing again."""
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client
