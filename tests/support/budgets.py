"""The live nodes of accounts, as a running gateway reads them, without PostgreSQL."""

import asyncio
from dataclasses import dataclass, field

from actors.store.connection import Params, Row
from gw.budgets.matching import SQL

# A node as it is read: id, scope, subject, period, name, whether it refuses, seconds to its start.
Read = tuple[str, str, str, str, str, bool, float]


def node(
    scope: str = "account",
    subject: str = "",
    *,
    id: str = "",
    period: str = "month",
    name: str = "",
    refuses: bool = True,
    starts_in: float = 0.0,
) -> Read:
    """A node as it is read; its id and its name are made of what it is, unless given."""
    known = "_".join(part for part in (scope, subject, period) if part)
    return (id or f"bud_{known}", scope, subject, period, name or known, refuses, starts_in)


@dataclass
class PlainNames:
    """End users' names as they are kept: as they are, unless the mode says otherwise."""

    mode: str = "plain"

    def kept(self, account_id: str, name: str) -> str | None:
        return {"plain": name, "digest": digest_of(name), "off": None}[self.mode]


def digest_of(name: str) -> str:
    """What stands for a name, in the form of a digest."""
    return "eu_" + name.encode().hex().ljust(32, "0")


@dataclass
class FakeBudgets:
    """A database that has only these nodes, by account; `reads` counts how often it was asked."""

    of: dict[str, tuple[int, list[Read]]] = field(default_factory=dict)
    reads: int = 0
    error: Exception | None = None
    gate: asyncio.Event | None = None

    async def fetch_one(self, sql: str, params: Params = ()) -> Row | None:
        assert sql == SQL["live"], sql
        self.reads += 1
        (account_id,) = params
        found = self.of.get(str(account_id))
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        return found and (found[0], [list(one) for one in found[1]] or None)

    async def fetch_all(self, sql: str, params: Params = ()) -> list[Row]:
        raise AssertionError(sql)

    async def execute(self, sql: str, params: Params = ()) -> int:
        raise AssertionError(sql)
