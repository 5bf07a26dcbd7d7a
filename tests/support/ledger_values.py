"""Calls as the ledger is told of them: facts, outcomes, and the messages of a batch."""

from typing import Any
from uuid import UUID

from actors.wallet.messages import CallFacts, Hold, Outcome, Record, Settle
from actors.wallet.rows import encode_settlement

ACCOUNT, KEY = "acct_a", "key_a"
SUBMITTED = 1_790_000_000.0  # seconds since 1970


def facts(number: int, **more: Any) -> CallFacts:
    """A call of this number, by the usual account and key unless `more` says otherwise."""
    usual: dict[str, Any] = {
        "account_id": ACCOUNT,
        "key_id": KEY,
        "protocol": "chat",
        "model": "m",
        "submitted_at": SUBMITTED,
    }
    return CallFacts(call_id=UUID(int=number), **{**usual, **more})


def outcome(cost: int, status: Any = "success", *, seconds: float = 1.0, **more: Any) -> Outcome:
    """How a call ended so many seconds after it was submitted, or at `created_at`."""
    usual = {"created_at": SUBMITTED + seconds, "latency_ms": round(seconds * 1000)}
    return Outcome(status=status, cost_nano_usd=cost, **{**usual, **more})


def hold(number: int, amount: int = 100, cap: int | None = None) -> Hold:
    """What the call of this number asks for."""
    return Hold(facts=facts(number), amount_nano_usd=amount, cap_nano_usd=cap)


def settle(number: int, cost: int, status: Any = "success", **more: Any) -> Settle:
    """The settlement of the call of this number."""
    return encode_settlement(facts(number), outcome(cost, status, **more))


def refused(number: int, *, model: str = "m", **more: Any) -> Record:
    """The row of a call that was refused."""
    return Record(facts=facts(number, model=model), outcome=outcome(0, "rejected", **more))
