"""The live nodes of the accounts whose keys are in use, as last read.

A key's row has the version of its account's nodes, and the ledger refuses what was matched by
another than the one in force, so that nothing depends on how old an entry is: it is read again when
either says so. An account that never had a node is not read at all.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from actors.clock import Clock
from actors.store.queries import load
from actors.store.session import Statements
from actors.store.waits import in_time
from gw.budgets.node import NO_NODES, Node, Nodes
from gw.keys.end_users import is_digest

SQL = load("gw.budgets", "matching.sql")

# Nodes of all accounts, at some 400 bytes each; those used last stay.
NODES_MAX = 200_000


class EndUserNames(Protocol):
    """What is kept of end users' names, in place of which calls and budgets have that."""

    @property
    def mode(self) -> str:
        """How they are kept at present."""

    def kept(self, account_id: str, name: str) -> str | None:
        """Return what is kept of a name; None: nothing."""


class LiveNodes:
    """At most so many nodes of accounts; one that has more is kept alone."""

    def __init__(
        self,
        database: Statements,
        clock: Clock,
        end_users: EndUserNames,
        *,
        nodes_max: int = NODES_MAX,
    ) -> None:
        self._database = database
        self._clock = clock
        self._end_users = end_users
        self._nodes_max = nodes_max
        self._mode = end_users.mode  # by which the kept ones were read
        self._count = 0
        self._of: OrderedDict[str, Nodes] = OrderedDict()
        self._reads: dict[str, Future[Nodes]] = {}

    def __repr__(self) -> str:
        return f"<LiveNodes {self._count} of {len(self._of)} accounts>"

    def known(self, account_id: str, version: int) -> Nodes | None:
        """Return the nodes of an account, of this version or a later one; None: to be read."""
        nodes = self._of.get(account_id)
        if nodes is None:
            return None if version else NO_NODES
        if nodes.version < version or self._mode != self._end_users.mode:
            return None
        self._of.move_to_end(account_id)
        return nodes

    async def read(self, account_id: str) -> Nodes:
        """Read the nodes of an account, with others that want them. Raises StoreUnavailable."""
        reading = self._reads.get(account_id)
        if reading is None:
            reading = self._reads[account_id] = asyncio.ensure_future(self._read(account_id))
            reading.add_done_callback(lambda done: self._end(account_id, done))
        # A request that is cancelled leaves the reading to the others.
        await asyncio.wait([reading])
        return reading.result()

    def _end(self, account_id: str, done: Future[Nodes]) -> None:
        del self._reads[account_id]
        if not done.cancelled():
            done.exception()  # raised in each that waits; there may be none left to retrieve it

    async def _read(self, account_id: str) -> Nodes:
        row = await in_time(self._database.fetch_one(SQL["live"], (account_id,)))
        now = self._clock.monotonic()  # after the database's, so that no start comes too early
        if self._mode != self._end_users.mode:
            self._mode = self._end_users.mode
            self._of.clear()
            self._count = 0
        nodes = NO_NODES
        if row is not None:
            version, found = row
            nodes = Nodes(version, self._nodes_of(account_id, found or (), now))
        self._keep(account_id, nodes)
        return nodes

    def _nodes_of(
        self, account_id: str, rows: Iterable[Sequence[Any]], now: float
    ) -> Iterator[Node]:
        """Yield the nodes of these rows; of end users as calls have them, if those have any."""
        for node_id, scope, subject, period, name, refuses, wait in rows:
            known: str | None = subject
            if scope == "end_user" and not is_digest(subject):
                known = self._end_users.kept(account_id, subject)
            if known is not None:
                starts = now + wait if wait else 0.0
                yield Node(node_id, scope, known, period, name, refuses, starts)

    def _keep(self, account_id: str, nodes: Nodes) -> None:
        """Keep the nodes of an account, but for older ones than those that are kept."""
        before = self._of.pop(account_id, None)
        if before is not None:
            self._count -= before.size
            if before.version > nodes.version:
                nodes = before
        self._of[account_id] = nodes
        self._count += nodes.size
        while self._count > self._nodes_max and len(self._of) > 1:
            _, dropped = self._of.popitem(last=False)
            self._count -= dropped.size
