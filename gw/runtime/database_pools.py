"""The connections of a process to its database: a pool for each kind of work.

So no kind waits for another. An account has at most all but one of a pool's connections, and
accounts take turns; three leave it two.
"""

from __future__ import annotations

from actors.store.database import Database
from metrics.groups.database import DatabaseMetrics

CALL_CONNECTIONS = 4
# Readers of long call logs wait for each other; reads of keys and balances do not wait for them.
LOG_CONNECTIONS = 3
LOG_STATEMENT_SECONDS = 10.0
# One finds, claims and records copies of results; reads of their links use `calls`.
MEDIA_CONNECTIONS = 2
# The poller records and claims on one of them while it ends jobs on the other.
JOB_CONNECTIONS = 2
# Webhooks are claimed, read and booked one after the other.
WEBHOOK_CONNECTIONS = 1
# Searches wait for each other, and no billed work does; retrieval for a call has its own pool.
KNOWLEDGE_CONNECTIONS = 3
AGENT_CONNECTIONS = 3
SEARCH_SECONDS = 5.0
# Requests of operators wait for each other, and calls do not wait for them.
ADMIN_CONNECTIONS = 2
ADMIN_STATEMENT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0
# Pages of the console wait for each other, and calls do not wait for them.
CONSOLE_CONNECTIONS = 3
CONSOLE_SECONDS = 8.0


class DatabasePools:
    """`calls` is for the queries of calls; the ledger's writer has a session of its own."""

    def __init__(self, dsn: str, metrics: DatabaseMetrics) -> None:
        def pool(name: str, size: int, statement_seconds: float = STATEMENT_SECONDS) -> Database:
            database = Database(
                dsn,
                size=size,
                statement_seconds=statement_seconds,
                on_wait=metrics.waiting(name),
                on_refused=metrics.refused,
            )
            metrics.watch(name, database)
            return database

        self.calls = pool("calls", CALL_CONNECTIONS)
        self.logs = pool("logs", LOG_CONNECTIONS, LOG_STATEMENT_SECONDS)
        self.knowledge = pool("knowledge", KNOWLEDGE_CONNECTIONS, SEARCH_SECONDS)
        self.agents = pool("agents", AGENT_CONNECTIONS, SEARCH_SECONDS)
        self.jobs = pool("jobs", JOB_CONNECTIONS)
        self.webhooks = pool("webhooks", WEBHOOK_CONNECTIONS)
        self.admin = pool("admin", ADMIN_CONNECTIONS, ADMIN_STATEMENT_SECONDS)
        # Opened if there is a media store.
        self.media = pool("media", MEDIA_CONNECTIONS)
        # Opened if there is a console.
        self.console = pool("console", CONSOLE_CONNECTIONS, CONSOLE_SECONDS)

    @property
    def _all(self) -> tuple[Database, ...]:
        return (
            self.console,
            self.admin,
            self.knowledge,
            self.agents,
            self.webhooks,
            self.media,
            self.jobs,
            self.logs,
            self.calls,
        )

    def open_count(self) -> int:
        """Return the number of open connections, including sessions and listeners."""
        return sum(database.open_count for database in self._all)

    async def close(self) -> None:
        """Close every connection."""
        for database in self._all:
            await database.close()
