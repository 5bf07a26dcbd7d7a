"""The refusals of an operator's request as messages: one table for commands, admin API, pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from actors.store.errors import DatabaseRefused, StatementRefused, StoreUnavailable
from actors.wallet.ledger import BalanceOutOfRange, UnknownAccount
from gw.admin.budgets import BudgetIsOperators, TooManyBudgets
from gw.agents.table import AgentIsLocked, UnknownAgent
from gw.budgets.table import BudgetExists, UnknownBudget
from gw.keys import store
from gw.keys.issue import NotRevealable
from gw.keys.key_requests import RequestIsDecided, UnknownRequest
from gw.keys.sealing import WrongSecret
from gw.knowledge.bases import UnknownBase
from gw.nouns.refused import Invalid, Refused
from gw.webhooks.table import QueueFull, TooManyWebhooks, UnknownWebhook


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request as a message."""

    code: str
    message: str
    http_status: int


# The first matching type is used, so special ones precede general ones.
_WORDINGS: Mapping[type[Exception], tuple[int, str, str]] = {
    Invalid: (400, "invalid_request", "{}"),
    UnknownAccount: (404, "account_not_found", "there is no account {}"),
    store.UnknownKey: (404, "key_not_found", "there is no key {}"),
    UnknownAgent: (404, "agent_not_found", "there is no agent {}"),
    UnknownBudget: (404, "budget_not_found", "there is no budget {}"),
    BudgetExists: (
        409,
        "budget_exists",
        "the budget {} of the account has this name, or this scope, subject and period",
    ),
    TooManyBudgets: (409, "too_many_budgets", "the account may not have one more budget: {}"),
    BudgetIsOperators: (
        403,
        "budget_locked",
        "an operator has made the budget {}, and alone changes it",
    ),
    UnknownRequest: (404, "request_not_found", "there is no request {}"),
    UnknownWebhook: (404, "webhook_not_found", "there is no webhook {}"),
    TooManyWebhooks: (409, "too_many_webhooks", "there are {} webhooks, as many as there may be"),
    QueueFull: (
        409,
        "webhook_queue_full",
        "more than {} deliveries would be pending: wait for some, or replay a shorter span",
    ),
    UnknownBase: (404, "kb_not_found", "the account has no knowledge base {}"),
    store.KeyIsRevoked: (409, "key_revoked", "the key {} is revoked, and revocation is for good"),
    store.TooManyKeys: (409, "too_many_keys", "the account {} has as many keys as one may have"),
    store.KeyIsLocked: (
        403,
        "key_locked",
        "an operator has disabled the key {}, and alone enables it",
    ),
    AgentIsLocked: (
        403,
        "agent_locked",
        "an operator has disabled the agent {}, and alone enables it",
    ),
    store.HashIsTaken: (409, "key_exists", "a key with this hash has been imported before"),
    NotRevealable: (
        409,
        "key_not_revealable",
        "the key {} is stored as a hash only and cannot be revealed",
    ),
    store.CapIsNeeded: (400, "usage", "the key {} was requested, and such keys keep a spend cap"),
    RequestIsDecided: (
        409,
        "request_decided",
        "the request {} has been approved or rejected before",
    ),
    WrongSecret: (503, "wrong_secret", "{}"),
    DatabaseRefused: (503, "database_unavailable", "the database refuses every such command: {}"),
    StoreUnavailable: (503, "database_unavailable", "the database cannot be reached: {}"),
    BalanceOutOfRange: (
        400,
        "balance_out_of_range",
        "the balance of {} would be more than the ledger holds",
    ),
    StatementRefused: (422, "database_refused", "the database refused the command: {}"),
}


def refusal_of(error: Exception) -> Refusal | None:
    """Return the refusal of an exception; None for an unexpected one."""
    if isinstance(error, Refused):
        return Refusal(error.code, str(error), error.http_status)
    for kind, (http_status, code, wording) in _WORDINGS.items():
        if isinstance(error, kind):
            return Refusal(code, wording.format(error), http_status)
    return None
