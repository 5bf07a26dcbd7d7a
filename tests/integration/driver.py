"""One loop and one database for all examples of a test."""

import asyncio
from typing import Any

from actors.store.database import Database


class Driver:
    """What runs the coroutines of tests that are none themselves."""

    def __init__(self, url: str) -> None:
        self.runner = asyncio.Runner()
        self.database = Database(url, size=1)

    def run(self, coroutine: Any) -> Any:
        return self.runner.run(coroutine)

    def close(self) -> None:
        self.run(self.database.close())
        self.runner.close()
