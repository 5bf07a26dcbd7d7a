"""The wallet of one account in this process: its mailbox, in order, and its last known balance.

A wallet decides nothing alone: admission is the guarded update in PostgreSQL, which the writer
(`writer.py`) runs for every wallet that has messages waiting, many wallets in one transaction. What
a wallet owns is the order of one account's holds and settlements, and a snapshot of its balance
that may say "yes, ask" without a read but never says "no" by itself.
"""

from __future__ import annotations

from collections import deque

from actors.mailbox import Envelope
from actors.wallet.messages import Message


class Wallet:
    """Messages of one account, oldest first, and what its balance was when last seen."""

    __slots__ = ("account_id", "available_nano_usd", "is_ready", "last_used", "waiting")

    def __init__(self, account_id: str) -> None:
        self.account_id = account_id
        self.waiting: deque[Envelope[Message]] = deque()
        self.available_nano_usd: int | None = None  # None: not seen yet
        self.is_ready = False  # queued at the writer
        self.last_used = 0.0

    def __repr__(self) -> str:
        return (
            f"<Wallet {self.account_id} {len(self.waiting)} waiting "
            f"available={self.available_nano_usd}>"
        )

    @property
    def is_idle(self) -> bool:
        """Nothing waits and nothing is under way: it may be forgotten."""
        return not self.waiting and not self.is_ready
