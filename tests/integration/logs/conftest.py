"""The table that the tests of this room share within one test: its database and its loop."""

from collections.abc import Iterator

import pytest

from tests.integration.logs.table import Table


@pytest.fixture
def table(database_url: str) -> Iterator[Table]:
    table = Table(database_url)
    yield table
    table.close()
