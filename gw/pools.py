"""The connections of a process to its database, in pools, so that no work waits for another's."""

from __future__ import annotations

from actors.store.database import Database
from metrics.database import DatabaseMetrics

CALL_CONNECTIONS = 4
# Who reads long call logs waits for others who do, and not for keys or balances to be read.
LOG_CONNECTIONS = 2
LOG_STATEMENT_SECONDS = 10.0
# Copies of results are found, claimed and moved on by one; readers of their links have `calls`.
MEDIA_CONNECTIONS = 2
# The poller books and claims on one of them while it ends jobs on the other.
JOB_CONNECTIONS = 2
# Searches wait for each other, and for nothing that costs money; those for a call are apart.
KNOWLEDGE_CONNECTIONS = 2
AGENT_CONNECTIONS = 2
SEARCH_SECONDS = 5.0
STATEMENT_SECONDS = 30.0


class Pools:
    """`calls` is for whatever a call waits for; the ledger's writer has a session of its own."""

    def __init__(self, dsn: str, metrics: DatabaseMetrics) -> None:
        def pool(name: str, size: int, statement_seconds: float = STATEMENT_SECONDS) -> Database:
            database = Database(
                dsn,
                size=size,
                statement_seconds=statement_seconds,
                on_wait=metrics.waiting(name),
            )
            metrics.watch(name, database)
            return database

        self.calls = pool("calls", CALL_CONNECTIONS)
        self.logs = pool("logs", LOG_CONNECTIONS, LOG_STATEMENT_SECONDS)
        self.knowledge = pool("knowledge", KNOWLEDGE_CONNECTIONS, SEARCH_SECONDS)
        self.agents = pool("agents", AGENT_CONNECTIONS, SEARCH_SECONDS)
        self.jobs = pool("jobs", JOB_CONNECTIONS)
        # Opened where there is a media store.
        self.media = pool("media", MEDIA_CONNECTIONS)

    def __repr__(self) -> str:
        return f"<Pools {self.calls!r} {self.logs!r} {self.jobs!r}>"

    async def close(self) -> None:
        """Close every connection."""
        searching = (self.knowledge, self.agents)
        for database in (*searching, self.media, self.jobs, self.logs, self.calls):
            await database.close()
