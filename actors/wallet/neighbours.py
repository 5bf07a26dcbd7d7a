"""Waits for what other processes have yet to write of an account.

A response is sent when its settlement is queued, not when it is durable, and the client's next
request may reach another process. That process asks the others through the database, and each
reports when what it knew of the account by then is written. Only reads of balances and logs pay
for this.
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable

from actors.process import ProcessIdentity
from actors.store.database import Database
from actors.store.errors import StoreError
from actors.store.queries import load
from actors.wallet.messages import LedgerUnavailable
from metrics.logs import EventLog

SQL = load("actors.wallet", "neighbours.sql")

CHANNEL = "gw_settled"
# Three heartbeats: a process that missed them all is dead or unable to reply.
RECENT_SECONDS = 3.0
# A process that has just died is waited for equally long; then all that will be written is written.
TIMEOUT_SECONDS = 1.0
# Requests: write all that is known of an account, or return its lease.
ASK, GIVE_BACK, DONE = "ask", "give_back", "done"
# Asks in the name of the database (`leases_call_back`), which waits for no reply.
LEDGER = "ledger"


class Neighbours:
    """The other processes on the same database."""

    def __init__(
        self,
        *,
        database: Database,
        identity: ProcessIdentity,
        settled: Callable[[str], Awaitable[None]],
        give_back: Callable[[str], Awaitable[None]],
        stop_leasing: Callable[[str], None],
    ) -> None:
        """`settled` waits until all that this process knows of an account is written, `give_back`
        until it has no lease of it; after `stop_leasing` nothing is admitted from that.
        """
        self._database = database
        self._identity = identity
        self._replies = {ASK: settled, GIVE_BACK: give_back}
        self._stop_leasing = stop_leasing
        self._questions = (f"{identity.id}/{number}" for number in itertools.count())
        # By question, the processes that have not replied.
        self._silent: dict[str, tuple[set[str], Future[None]]] = {}
        # Questions of others: kind, question, account.
        self._asked: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue()
        self._log = EventLog("actors.wallet")

    def __repr__(self) -> str:
        return f"<Neighbours {len(self._silent)} asked {self._asked.qsize()} to be answered>"

    async def start(self) -> None:
        """Listen until the database is closed. Raises StoreUnavailable."""
        await self._database.listen(CHANNEL, self._take, lambda: None)

    async def settled(self, account_id: str) -> None:
        """Wait until every process, including this one, has written what it knows of the account.

        Raises StoreUnavailable and LedgerUnavailable.
        """
        await asyncio.gather(self._replies[ASK](account_id), self._ask(ASK, account_id))

    async def give_back(self, account_id: str) -> None:
        """Wait until no process has a lease of the account, or the timeout is over.

        Raises StoreUnavailable and LedgerUnavailable.
        """
        await asyncio.gather(self._replies[GIVE_BACK](account_id), self._ask(GIVE_BACK, account_id))

    def called_back(self, account_ids: Iterable[str]) -> None:
        """Return the leases of these accounts: the database calls them back."""
        for account_id in account_ids:
            self._stop_leasing(account_id)
            self._asked.put_nowait((GIVE_BACK, LEDGER, account_id))

    async def run(self) -> None:
        """Reply to the others forever."""
        while True:
            asked = [await self._asked.get()]
            while not self._asked.empty():
                asked.append(self._asked.get_nowait())
            wanted = dict.fromkeys((kind, account_id) for kind, _, account_id in asked)
            try:
                await asyncio.gather(*(self._replies[kind](account) for kind, account in wanted))
                replies = [
                    f"{DONE} {question} {self._identity.id}"
                    for _, question, _ in asked
                    if question != LEDGER
                ]
                if replies:
                    await self._database.fetch_all(SQL["send"], (replies,))
            except (StoreError, LedgerUnavailable) as error:  # the asking side times out
                self._log.warning("neighbours_unanswered", error=str(error))

    async def _ask(self, kind: str, account_id: str) -> None:
        """Send a question to the others and wait for their replies until the timeout."""
        rows = await self._database.fetch_all(SQL["others"], (self._identity.id, RECENT_SECONDS))
        silent = {row[0] for row in rows}
        if not silent:
            return
        question = next(self._questions)
        all_done: Future[None] = asyncio.get_running_loop().create_future()
        self._silent[question] = silent, all_done
        try:
            await self._database.fetch_all(SQL["send"], ([f"{kind} {question} {account_id}"],))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await all_done
        except TimeoutError:
            self._log.info("neighbours_silent", processes=sorted(silent))
        finally:
            del self._silent[question]

    def _take(self, payload: str) -> None:
        kind, question, rest = payload.split(" ", 2)
        own = self._silent.get(question)
        if kind in self._replies:
            if own is None:
                if kind == GIVE_BACK:
                    self._stop_leasing(rest)
                self._asked.put_nowait((kind, question, rest))
        elif own is not None:
            silent, all_done = own
            silent.discard(rest)
            if not silent and not all_done.done():
                all_done.set_result(None)
