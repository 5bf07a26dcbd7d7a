"""What a test reads, changes or locks in the gateway's database by itself, past the gateway."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2


@contextmanager
def transaction(database_url: str) -> Iterator[Any]:
    """A cursor in a transaction of its own: committed at the end, undone by an exception."""
    connection = psycopg2.connect(database_url)
    try:
        with connection, connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
