"""The connections of a process to its database, in pools, so that no work waits for another's."""

from __future__ import annotations

from actors.store.database import Database

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


class Pools:
    """`calls` is for whatever a call waits for; the ledger's writer has a session of its own."""

    def __init__(self, dsn: str) -> None:
        self.calls = Database(dsn)
        self.logs = Database(dsn, size=LOG_CONNECTIONS, statement_seconds=LOG_STATEMENT_SECONDS)
        self.knowledge = Database(dsn, size=KNOWLEDGE_CONNECTIONS, statement_seconds=SEARCH_SECONDS)
        self.agents = Database(dsn, size=AGENT_CONNECTIONS, statement_seconds=SEARCH_SECONDS)
        self.jobs = Database(dsn, size=JOB_CONNECTIONS)
        self.media = Database(dsn, size=MEDIA_CONNECTIONS)  # opened where there is a media store

    def __repr__(self) -> str:
        return f"<Pools {self.calls!r} {self.logs!r} {self.jobs!r}>"

    async def close(self) -> None:
        """Close every connection."""
        searching = (self.knowledge, self.agents)
        for database in (*searching, self.media, self.jobs, self.logs, self.calls):
            await database.close()
