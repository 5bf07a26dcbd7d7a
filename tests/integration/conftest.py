"""The loop and the database that all examples of a test share."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.integration.driver import Driver


@pytest.fixture
def driver(database_url: str) -> Iterator[Driver]:
    with closing(Driver(database_url)) as driver:
        yield driver
