"""Fixtures for every test: databases, folders, and the watch over the log.

database_url    URL of a fresh, migrated database, dropped after the test
empty_url       URL of a fresh database without any table
data_dir        a folder for an embedded PostgreSQL of the test's own
redis_url       URL of an empty Valkey server of the test's own
valkey          the same as an object: one that may be killed, started again and frozen
expect_log      allows log records by name; any other warning fails the test
"""

import gc
import inspect
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture.providers import HypothesisProvider
from hypothesis.internal.constants_ast import Constants

from loadtests.chaos.valkey import MortalValkey, mortal_valkey, running_valkey
from loadtests.rig.folders import remove_leftovers, temporary_folder
from loadtests.rig.postgres import PostgresForTests, running_postgres
from tests.support.aio import run_test
from tests.support.logs import LogWatch

# What is imported and collected stays: the collector would walk it again and again meanwhile. Then
# it runs after so many objects: its usual 700 would be a tenth of what some tests take.
gc.disable()
GARBAGE = 10_000

# Examples have no deadline: a busy machine is no fault of ours. They are the same in every run, so
# that a change is what makes a test fail; HYPOTHESIS_PROFILE=random looks for others.
settings.register_profile("random", deadline=None)
settings.register_profile(
    "thorough",  # with the long tests
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("repeatable", settings.get_profile("thorough"), max_examples=40)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeatable")
settings.load_profile(PROFILE)
if PROFILE != "random":
    # Examples are made of the constants of all modules that are loaded by then, too: which these
    # are depends on the tests that went before in the same process.
    HypothesisProvider._local_constants = Constants()  # type: ignore[assignment]


def pytest_configure(config: pytest.Config) -> None:
    """Name the marks of these tests; take from the environment what would change their outcome."""
    # Folders that tests make are open to the servers that run as another user.
    os.umask(0o022)
    # A proxy is for what is elsewhere; servers of tests are on this machine.
    spared = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    for name in ("no_proxy", "NO_PROXY"):
        os.environ[name] = ",".join(filter(None, [spared, "127.0.0.1", "localhost", "::1"]))
    config.addinivalue_line("markers", "both_loops: run on asyncio's own loop and on uvloop's")
    config.addinivalue_line("markers", "logs: allow log records of these names, or ask for them")
    config.addinivalue_line("markers", "long: takes long; runs with `./ops/test --all` alone")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with long tests first: the last ones of a run are short, for every worker."""
    first = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in first)


def pytest_collection_finish() -> None:
    """What is imported by now stays: keep the collector, run after many a test, from walking it."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(GARBAGE)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresForTests]:
    """One server for the whole run, started by the first test that needs it."""
    remove_leftovers()
    with temporary_folder(in_memory=True) as folder, running_postgres(folder) as running:
        yield running


@pytest.fixture
def database_url(postgres: PostgresForTests) -> Iterator[str]:
    """The URL of a migrated database that no other test sees."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def empty_url(postgres: PostgresForTests) -> Iterator[str]:
    """The URL of a database without tables that no other test sees."""
    with postgres.database(template="template0") as url:
        yield url


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """A folder with a short path that every user may pass through."""
    with temporary_folder(in_memory=True) as folder:
        yield folder


@pytest.fixture
def redis_url(data_dir: Path) -> Iterator[str]:
    """The URL of an empty server that speaks the protocol of Redis."""
    with running_valkey(data_dir) as url:
        yield url


@pytest.fixture
def valkey(data_dir: Path) -> Iterator[MortalValkey]:
    """An empty server that the test may kill, start again and freeze."""
    with mortal_valkey(data_dir) as server:
        yield server


@pytest.fixture(autouse=True)
def log_watch(request: pytest.FixtureRequest) -> Iterator[LogWatch]:
    """Fail the test at its end when it logged a warning that it did not expect."""
    watch = LogWatch()
    for mark in request.node.iter_markers("logs"):
        watch.expect(*mark.args, **mark.kwargs)
    root = logging.getLogger()
    root.addHandler(watch)
    try:
        yield watch
    finally:
        root.removeHandler(watch)
    faults = watch.faults()
    if faults:
        pytest.fail("\n".join(faults), pytrace=False)


@pytest.fixture
def expect_log(log_watch: LogWatch) -> Callable[..., None]:
    """Allow log records: `expect_log("channel_opened")`, `required=False` if it may stay away."""
    return log_watch.expect


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a test that is an `async def` on loops of its own; what it leaves behind fails it."""
    if pyfuncitem.get_closest_marker("gen_test") or not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names})
    run_test(test, on_both_loops=pyfuncitem.get_closest_marker("both_loops") is not None)
    return True
