"""The wallet of one account in this process: its last known balance.

A wallet decides nothing: admission is the guarded update in PostgreSQL, which the writer
(`writer.py`) runs, and the order of the account's holds and settlements is that of the writer's
mailbox. What a wallet keeps is a snapshot of the balance, which may say "yes, ask" without a read
but never says "no" by itself.
"""

from __future__ import annotations


class Wallet:
    """What an account had available when it was last seen."""

    __slots__ = ("account_id", "available_nano_usd", "last_used")

    def __init__(self, account_id: str) -> None:
        self.account_id = account_id
        self.available_nano_usd: int | None = None  # None: not seen yet
        self.last_used = 0.0

    def __repr__(self) -> str:
        return f"<Wallet {self.account_id} available={self.available_nano_usd}>"
