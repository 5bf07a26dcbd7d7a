"""The hold of one call: on the balance, the key's cap and the budgets that it matches, or on none.

Budgets are matched in memory, and the ledger says whether the account has other ones by now; then
they are read and matched again. What the ledger refuses is worded here, for every kind of call.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from msgspec import Struct

from actors.clock import Clock
from actors.store.errors import StoreUnavailable
from actors.wallet.messages import RUN, Granted, Hold, LedgerUnavailable, NodeHold
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.wallets import BalanceLeased, HoldRefused, Wallets
from gw import errors
from gw.budgets import refusal
from gw.budgets.matching import LiveNodes
from gw.budgets.node import Matched, Node, Nodes
from gw.calls.bills import Bill
from gw.calls.call import Call
from gw.errors import GatewayError
from metrics.groups.budgets import HoldOutcome
from metrics.prometheus import Metrics

# How often a hold is matched anew, each time because the account's budgets have changed meanwhile.
MATCHED_MAX = 8


class Holding(Struct, eq=False):
    """Takes the hold of a call once.

    `held` is then what it holds on budgets, `warned` those that its response warns of. `terms` are
    those of its row, should recovery have to write it.
    """

    call: Call
    bill: Bill
    terms: Mapping[str, Any]
    _wallets: Wallets
    _nodes: LiveNodes
    _clock: Clock
    _metrics: Metrics
    _matched: Sequence[Matched] = ()
    held: tuple[NodeHold, ...] = ()
    warned: Sequence[str] = ()

    def __repr__(self) -> str:
        return f"<Holding {self.call.facts.call_id.hex} {len(self._matched)} budgets>"

    def take(self) -> Coroutine[Any, Any, None] | None:
        """Hold at once, out of memory; else return what asks the ledger.

        Both raise GatewayError; what is returned raises KeyTaken, too.
        """
        call = self.call
        if self.bill.hold_nano_usd > MAX_NANO_USD:  # more than any balance can cover
            raise GatewayError(errors.QUOTA_EXCEEDED, f"{_NOT_COVERED} {call.cheaper}")
        nodes = self._nodes.known(call.facts.account_id, call.spender.budgets_version)
        if nodes is None:
            return self._read_and_ask()
        hold = self._hold(nodes)
        waiting = self._wallets.hold(hold)
        if waiting is not None:
            return self._ask(hold, waiting)
        if self._matched:
            self._granted("leased", self._wallets.warned(hold))
        return None

    async def _read_and_ask(self) -> None:
        hold = self._hold(await self._read())
        await self._ask(hold, self._wallets.hold(hold))

    async def _ask(self, hold: Hold, waiting: Coroutine[Any, Any, Granted] | None) -> None:
        """Wait for the ledger's hold; match anew as often as the account's budgets have changed."""
        tries = 1
        while waiting is not None:
            try:
                granted = await waiting
            except HoldRefused as refused:
                if refused.reason != "stale_budgets":
                    raise self._error_of(refused) from refused
                if tries == MATCHED_MAX:
                    raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _CHANGING) from refused
            except BalanceLeased as error:
                raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _LEASED) from error
            except LedgerUnavailable as error:
                raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _LEDGER_AWAY) from error
            else:
                self._granted("asked", granted.warned)
                return
            tries += 1
            hold = self._hold(await self._read())
            waiting = self._wallets.hold(hold)
        self._granted("leased", self._wallets.warned(hold))

    async def _read(self) -> Nodes:
        try:
            return await self._nodes.read(self.call.facts.account_id)
        except StoreUnavailable as error:
            raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _LEDGER_AWAY) from error

    def _hold(self, nodes: Nodes) -> Hold:
        """Return the hold of the call, with what it holds on the nodes that it matches."""
        call, bill = self.call, self.bill
        matched = self._matched = nodes.match(call.facts, call.spender, self._clock.monotonic())
        steps: Sequence[Node] = ()
        if call.model.chain:
            steps = nodes.of_models(one.id for one in call.model.chain)
            self._matched = [*matched, *((node, "") for node in steps)]
        run = None if call.facts.attribution is None else call.facts.attribution.run
        self.held = ()
        if self._matched or run:
            amount = 0
            if run or any(node.refuses for node, _ in self._matched):
                amount = min(bill.budget_hold_nano_usd, MAX_NANO_USD)
            held = [
                NodeHold(node.id, subject, amount if node.refuses else 0)
                for node, subject in matched
            ]
            held += [
                NodeHold(node.id, "", amount if node.refuses else 0, model=node.subject)
                for node in steps
            ]
            if run:
                held.append(NodeHold(RUN, run, amount, call.spender.ceiling_nano_usd))
            self.held = tuple(held)
        return Hold(
            facts=call.facts,
            amount_nano_usd=bill.hold_nano_usd,
            cap_nano_usd=call.cap_nano_usd,
            detail=self.terms,
            claim=None if call.idempotency is None else call.idempotency.claim,
            job=call.job,
            nodes=self.held,
            budgets_version=nodes.version,
        )

    def _granted(self, outcome: HoldOutcome, warned: Sequence[str]) -> None:
        self.warned = warned
        for node, _ in self._matched:
            self._metrics.budgets.held(node.scope, outcome)

    def _error_of(self, refused: HoldRefused) -> GatewayError:
        """Return the client's error for what the ledger refused; note a budget's figures."""
        call, budget = self.call, refused.budget
        if refused.reason == "too_many_runs":
            return refusal.too_many_runs()
        if budget is None:
            why = _SPEND_CAP if refused.reason == "spend_cap" else _NOT_COVERED
            return GatewayError(errors.QUOTA_EXCEEDED, f"{why} {call.cheaper}")
        call.detail["budget"] = refusal.detail_of(budget)
        if budget.budget_id == RUN:
            scope, name = RUN, budget.subject
        else:
            scope, name = next(
                (node.scope, node.name) for node, _ in self._matched if node.id == budget.budget_id
            )
        self._metrics.budgets.held(scope, "refused")
        return refusal.over_budget(budget, name, call.cheaper)


_NOT_COVERED = "The balance does not cover the estimated cost of this request. Top up the account,"
_SPEND_CAP = "This key has reached its spend cap. Raise the cap,"
_LEASED = (
    "Part of the balance is set aside for another process of the gateway, which does not respond at"
    " the moment. Nothing was charged; try again."
)
_LEDGER_AWAY = "The gateway cannot reach its ledger at the moment. Nothing was charged; try again."
_CHANGING = "The account's budgets are being changed. Nothing was charged; try again."
