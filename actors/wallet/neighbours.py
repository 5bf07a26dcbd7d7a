"""What other processes have still to write of an account, waited for.

A reply goes out when its settlement is on its way, not when it is durable, and the client's next
question may reach another process. That one asks the others through the database, and each says
when what it knew of the account by then is written. Only who reads balances and logs pays for it.
"""

from __future__ import annotations

import asyncio
import itertools
from asyncio import Future
from collections.abc import Awaitable, Callable

from actors.identity import ProcessIdentity
from actors.store.database import Database, StoreUnavailable
from actors.store.queries import load
from actors.wallet.messages import LedgerUnavailable
from metrics.logs import EventLog

SQL = load("actors.wallet", "neighbours.sql")

CHANNEL = "gw_settled"
# Three heartbeats: who has missed them all is gone, or in no state to answer.
RECENT_SECONDS = 3.0
# One that has just died is waited for as long. Then what is written is what there is to be read.
TIMEOUT_SECONDS = 1.0
ASK, DONE = "ask", "done"


class Neighbours:
    """The other processes on the same database, as far as they settle."""

    def __init__(
        self,
        *,
        database: Database,
        identity: ProcessIdentity,
        settled: Callable[[str], Awaitable[None]],
    ) -> None:
        """`settled` waits until what this process knows of an account is written."""
        self._database = database
        self._identity = identity
        self._settled = settled
        self._questions = (f"{identity.id}/{number}" for number in itertools.count())
        self._silent: dict[str, tuple[set[str], Future[None]]] = {}  # by question: who is to answer
        self._asked: asyncio.Queue[tuple[str, str]] = asyncio.Queue()  # question, account
        self._log = EventLog("actors.wallet")

    def __repr__(self) -> str:
        return f"<Neighbours {len(self._silent)} asked {self._asked.qsize()} to be answered>"

    async def start(self) -> None:
        """Listen, until the database is closed. Raises StoreUnavailable."""
        await self._database.listen(CHANNEL, self._take, lambda: None)

    async def settled(self, account_id: str) -> None:
        """Wait until every process, this one too, has written what it knows of the account.

        Raises StoreUnavailable and LedgerUnavailable.
        """
        await asyncio.gather(self._settled(account_id), self._settled_elsewhere(account_id))

    async def run(self) -> None:
        """Answer the others for ever."""
        while True:
            asked = [await self._asked.get()]
            while not self._asked.empty():
                asked.append(self._asked.get_nowait())
            accounts = {account_id for _, account_id in asked}
            try:
                await asyncio.gather(*(self._settled(account_id) for account_id in accounts))
                replies = [f"{DONE} {question} {self._identity.id}" for question, _ in asked]
                await self._database.fetch_all(SQL["say"], (replies,))
            except (StoreUnavailable, LedgerUnavailable) as error:  # who asks does not wait long
                self._log.warning("neighbours_unanswered", error=str(error))

    async def _settled_elsewhere(self, account_id: str) -> None:
        rows = await self._database.fetch_all(SQL["others"], (self._identity.id, RECENT_SECONDS))
        silent = {row[0] for row in rows}
        if not silent:
            return
        question = next(self._questions)
        all_done: Future[None] = asyncio.get_running_loop().create_future()
        self._silent[question] = silent, all_done
        try:
            await self._database.fetch_all(SQL["say"], ([f"{ASK} {question} {account_id}"],))
            async with asyncio.timeout(TIMEOUT_SECONDS):
                await all_done
        except TimeoutError:
            self._log.info("neighbours_silent", processes=sorted(silent))
        finally:
            del self._silent[question]

    def _take(self, payload: str) -> None:
        kind, question, rest = payload.split(" ", 2)
        own = self._silent.get(question)
        if kind == ASK:
            if own is None:
                self._asked.put_nowait((question, rest))
        elif own is not None:
            silent, all_done = own
            silent.discard(rest)
            if not silent and not all_done.done():
                all_done.set_result(None)
