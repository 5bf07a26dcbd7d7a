"""Fixtures of the acceptance tests: a deployment, its simulator clean for each test, and a tenant.

Modules share the deployment of `common.py`. One that has `SETTINGS`, those of a `gw.yaml`, gets a
deployment of its own, unless they are one of `SHARED`: those modules have one deployment together.
`EXPECTED_LOG` says which errors its gateway may log.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from openai import OpenAI

from loadtests.rig import client
from loadtests.rig.deployment import Deployment, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance import agents, common, described, pictures, sounds, translated

# Their modules change no configuration.
SHARED = (common.SETTINGS, agents.SETTINGS, pictures.SETTINGS, sounds.SETTINGS, translated.SETTINGS)


@pytest.fixture(autouse=True)
def judged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every response of the public API that a client reads is as its reference describes it.

    But where upstreams answer what no protocol knows, which is passed through: `ODD_UPSTREAMS`.
    """
    if not getattr(request.module, "ODD_UPSTREAMS", False):
        monkeypatch.setattr(client, "JUDGES", [described.judge])


@pytest.fixture(scope="session")
def deployments(postgres: PostgresForTests) -> Iterator[Callable[[int], Deployment]]:
    """The deployments that modules share, by their place in `SHARED`, made when needed."""
    built: dict[int, Deployment] = {}
    with ExitStack() as stack:

        def deployment_at(place: int) -> Deployment:
            if place not in built:
                built[place] = stack.enter_context(shared_deployment(postgres, **SHARED[place]))
            return built[place]

        yield deployment_at


@pytest.fixture(scope="module")
def shared(
    request: pytest.FixtureRequest,
    postgres: PostgresForTests,
    deployments: Callable[[int], Deployment],
) -> Iterator[Deployment]:
    """The deployment of this module."""
    settings: dict[str, Any] = getattr(request.module, "SETTINGS", common.SETTINGS)
    expected_log = getattr(request.module, "EXPECTED_LOG", ())
    places = [place for place, one in enumerate(SHARED) if one is settings]
    if places and not expected_log:
        yield deployments(places[0])
        return
    with shared_deployment(postgres, expected_log=expected_log, **settings) as built:
        yield built


@pytest.fixture
def h(shared: Deployment) -> Deployment:
    """The deployment of this module, its simulator without faults and its counters at zero."""
    shared.upstream.wait(active=0)
    has_tasks = shared.upstream.stats()["tasks"] > 0
    shared.upstream.reset()
    if has_tasks:  # one that a test has left open is polled until it fails: it is forgotten now
        until(lambda: shared.query("SELECT count(*) AS n FROM job_polls")[0]["n"] == 0, what="ends")
        shared.upstream.reset()
    return shared


@pytest.fixture
def tenant(h: Deployment) -> Tenant:
    """An account with one USD, and a key that may do everything."""
    return h.tenant()


@pytest.fixture
def sdk(h: Deployment, tenant: Tenant) -> Iterator[OpenAI]:
    """The official library with the tenant's key, which tries nothing again."""
    with OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0) as client:
        yield client
