"""What a call holds on budgets, and what its client is told when one refuses."""

from collections.abc import Awaitable, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from actors.store.errors import StoreUnavailable
from actors.wallet.attribution import Attribution
from actors.wallet.messages import (
    BudgetRefusal,
    Granted,
    Hold,
    LedgerUnavailable,
    NodeHold,
    RefusalReason,
)
from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD
from actors.wallet.wallets import HoldRefused, Wallets
from channels.registry import ModelSpec
from gw.budgets.matching import LiveNodes
from gw.budgets.node import Spender
from gw.calls.bills import Bill
from gw.calls.holding import MATCHED_MAX, Holding
from gw.errors import GatewayError
from metrics.prometheus import Metrics
from tests.support.budgets import FakeBudgets, PlainNames, Read, node
from tests.support.clock import FakeClock
from tests.support.figures import samples
from tests.support.specs import make_model
from tests.unit.calls.world import ACCOUNT, World, world

HOLD, WHOLE = 700, 1000


class FixedBill(Bill):
    """Holds more on budgets than on the balance; says how often it was asked for that."""

    def __init__(self, budget_hold_nano_usd: int = WHOLE) -> None:
        self.asked = 0
        self._budget_hold_nano_usd = budget_hold_nano_usd

    @property
    def hold_nano_usd(self) -> int:
        return HOLD

    @property
    def budget_hold_nano_usd(self) -> int:
        self.asked += 1
        return self._budget_hold_nano_usd


class ScriptedWallets:
    """Takes holds; answers them in order: None is out of memory, anything else by the ledger."""

    def __init__(self, *replies: Granted | Exception | None) -> None:
        self._replies = list(replies)
        self.holds: list[Hold] = []

    def hold(self, hold: Hold) -> Awaitable[Granted] | None:
        self.holds.append(hold)
        reply = self._replies.pop(0)
        return None if reply is None else self._reply(reply)

    def warned(self, hold: Hold) -> tuple[str, ...]:
        return tuple(node.budget_id for node in hold.nodes if not node.amount_nano_usd)

    async def _reply(self, reply: Granted | Exception) -> Granted:
        if isinstance(reply, Exception):
            raise reply
        return reply


class Case:
    """One call to be held, of an account with these nodes."""

    def __init__(
        self,
        w: World,
        *replies: Granted | Exception | None,
        nodes: Sequence[Read] = (),
        version: int = 1,
        known_version: int = 1,
        bill: Bill | None = None,
        run: str | None = None,
        ceiling: int | None = None,
        end_user: str | None = None,
        chain: ModelSpec | None = None,
    ) -> None:
        said = Attribution(run=run, end_user=end_user) if run or end_user else None
        call = w.prepare()
        model = chain or call.model
        self.call = replace(
            call,
            model=model,
            facts=replace(call.facts, attribution=said, model=model.id),
            spender=Spender(budgets_version=known_version, user="ann", ceiling_nano_usd=ceiling),
        )
        self.budgets = FakeBudgets({ACCOUNT: (version, list(nodes))})
        self.wallets = ScriptedWallets(*replies)
        self.metrics = Metrics()
        clock = FakeClock()
        self.holding = Holding(
            self.call,
            bill or FixedBill(),
            {"hold": HOLD},
            cast(Wallets, self.wallets),
            LiveNodes(self.budgets, clock, PlainNames()),
            clock,
            self.metrics,
        )

    async def take(self) -> None:
        waiting = self.holding.take()
        if waiting is not None:
            await waiting

    async def refused(self) -> GatewayError:
        with pytest.raises(GatewayError) as refused:
            await self.take()
        return refused.value

    def counted(self, scope: str, outcome: str) -> float:
        """Holds that the metric has."""
        counts = samples(self.metrics, "gw_budget_holds_total")
        return counts.get(f'{{outcome="{outcome}",scope="{scope}"}}', 0)


async def test_nodes_that_refuse_are_held_for_the_whole_request_and_others_count_only() -> None:
    nodes = [node(), node("every_user", period="day"), node("user", "ann", refuses=False)]
    async with world() as w:
        case = Case(w, None, nodes=nodes)
        await case.take()
        (hold,) = case.wallets.holds
        assert (hold.amount_nano_usd, hold.budgets_version) == (HOLD, 1)
        assert hold.nodes == (
            NodeHold("bud_account_month", "", WHOLE),
            NodeHold("bud_user_ann_month", "", 0),
            NodeHold("bud_every_user_day", "ann", WHOLE),
        )
        assert case.counted("account", "leased") == case.counted("user", "leased") == 1


async def test_a_chain_is_held_for_with_the_nodes_of_each_model_that_may_serve() -> None:
    nodes = [node(), *(node("model", name) for name in ("best", "a", "b", "c"))]
    steps = (make_model(id="a"), make_model(id="b"))
    async with world() as w:
        case = Case(w, None, nodes=nodes, chain=make_model(id="best", chain=steps))
        await case.take()
        assert case.holding.held == (
            NodeHold("bud_account_month", "", WHOLE),
            NodeHold("bud_model_best_month", "", WHOLE),
            NodeHold("bud_model_a_month", "", WHOLE, model="a"),
            NodeHold("bud_model_b_month", "", WHOLE, model="b"),
        )
        assert case.counted("model", "leased") == 3


async def test_the_whole_request_is_estimated_only_where_it_is_held_for() -> None:
    async with world() as w:
        for nodes, run, asked in (
            ([], None, 0),
            ([node(refuses=False)], None, 0),
            ([node()], None, 1),
            ([], "r", 1),  # another process may have named its ceiling
        ):
            bill = FixedBill()
            await Case(w, None, nodes=nodes, bill=bill, run=run).take()
            assert bill.asked == asked


async def test_a_run_is_held_for_with_its_ceiling_beside_its_nodes() -> None:
    async with world() as w:
        case = Case(w, None, nodes=[node("every_run")], run="r", ceiling=5)
        await case.take()
        assert case.wallets.holds[0].nodes == (
            NodeHold("bud_every_run_month", "r", WHOLE),
            NodeHold("run", "r", WHOLE, 5),
        )
        case = Case(w, None, run="r")
        await case.take()
        assert case.wallets.holds[0].nodes == (NodeHold("run", "r", WHOLE, None),)


async def test_more_than_any_budget_has_is_held_as_the_most_that_one_may_have() -> None:
    async with world() as w:
        case = Case(w, None, nodes=[node()], bill=FixedBill(2**80))
        await case.take()
        assert case.wallets.holds[0].nodes[0].amount_nano_usd == MAX_NANO_USD


async def test_an_account_without_budgets_reads_none() -> None:
    async with world() as w:
        case = Case(w, None, known_version=0)
        await case.take()
        assert case.budgets.reads == 0
        assert (case.wallets.holds[0].nodes, case.wallets.holds[0].budgets_version) == ((), 0)


async def test_changed_budgets_are_read_and_matched_again() -> None:
    async with world() as w:
        stale = HoldRefused("stale_budgets")
        case = Case(w, stale, stale, Granted(), nodes=[node()], version=7, known_version=0)
        await case.take()
        assert case.budgets.reads == 2
        assert [hold.budgets_version for hold in case.wallets.holds] == [0, 7, 7]
        assert [len(hold.nodes) for hold in case.wallets.holds] == [0, 1, 1]
        assert case.counted("account", "asked") == 1
        # Out of memory at the second try.
        case = Case(w, stale, None, nodes=[node()], version=2)
        await case.take()
        assert case.counted("account", "leased") == 1


async def test_budgets_that_change_without_end_are_503() -> None:
    async with world() as w:
        case = Case(w, *[HoldRefused("stale_budgets")] * MATCHED_MAX, known_version=0)
        refused = await case.refused()
        assert (refused.http_status, refused.headers["Retry-After"]) == (503, "1")
        assert len(case.wallets.holds) == MATCHED_MAX


async def test_budgets_that_cannot_be_read_are_503_and_nothing_is_held() -> None:
    async with world() as w:
        case = Case(w, None)
        case.budgets.error = StoreUnavailable("away")
        assert (await case.refused()).http_status == 503
        assert case.wallets.holds == []
        case = Case(w, LedgerUnavailable())
        assert (await case.refused()).http_status == 503


def of_budget(**more: Any) -> HoldRefused:
    usual: dict[str, Any] = {
        "budget_id": "bud_account_month",
        "subject": "",
        "needed_nano_usd": NANO_PER_USD // 2,
        "remaining_nano_usd": 25 * 10**7,
        "limit_nano_usd": 5 * NANO_PER_USD,
        "spent_nano_usd": 4 * NANO_PER_USD,
        "held_nano_usd": 75 * 10**7,
        "resets_at": 1_800_000_000.0,
    }
    return HoldRefused("budget", BudgetRefusal(**{**usual, **more}))


async def test_a_refusal_says_which_budget_what_is_needed_and_left_and_when_it_resets() -> None:
    async with world() as w:
        case = Case(w, of_budget(), nodes=[node(name="Tüte")])
        refused = await case.refused()
        assert (refused.http_status, refused.kind.code) == (402, "quota_exceeded")
        assert refused.headers["x-gateway-budget"] == (
            "bud_account_month; needed=0.5; remaining=0.25; reset=2027-01-15T08:00:00Z"
        )
        for part in ('"Tüte"', "0.5 USD", "0.25 USD", "5 USD", "2027-01-15T08:00:00Z"):
            assert part in refused.message
        assert "smaller max_tokens" in refused.message
        assert case.call.detail["budget"] == {
            "id": "bud_account_month",
            "limit": 5 * NANO_PER_USD,
            "spent": 4 * NANO_PER_USD,
            "held": 75 * 10**7,
            "needed": NANO_PER_USD // 2,
        }
        assert case.counted("account", "refused") == 1


async def test_a_refusal_names_no_end_user_and_a_run_by_its_name() -> None:
    async with world() as w:
        general = of_budget(budget_id="bud_every_end_user_total", subject="ed", resets_at=None)
        nodes = [node("every_end_user", period="total", name="each")]
        refused = await Case(w, general, nodes=nodes, end_user="ed@example.com").refused()
        assert '"each"' in refused.message
        assert "never" in refused.message
        assert "ed@example.com" not in refused.message
        assert refused.headers["x-gateway-budget"].endswith("; reset=never")
        ceiling = of_budget(budget_id="run", subject="r1", resets_at=None)
        case = Case(w, ceiling, run="r1", ceiling=5)
        refused = await case.refused()
        assert '"r1"' in refused.message
        assert refused.headers["x-gateway-budget"].startswith("run; ")
        assert case.counted("run", "refused") == 1


async def test_too_many_runs_are_429_with_the_time_to_come_back_after() -> None:
    async with world() as w:
        refused = await Case(w, HoldRefused("too_many_runs"), run="r", ceiling=1).refused()
        assert (refused.http_status, refused.kind.code) == (429, "rate_limit_exceeded")
        assert int(refused.headers["Retry-After"]) > 0


async def test_other_refusals_stay_as_they_were() -> None:
    reasons: dict[RefusalReason, str] = {
        "insufficient_funds": "balance",
        "spend_cap": "spend cap",
        "unknown_account": "balance",
    }
    async with world() as w:
        for reason, said in reasons.items():
            case = Case(w, HoldRefused(reason), nodes=[node()])
            refused = await case.refused()
            assert (refused.http_status, said in refused.message) == (402, True)
            assert "x-gateway-budget" not in refused.headers
            assert "budget" not in case.call.detail


async def test_a_warning_is_what_the_ledger_granted_with() -> None:
    async with world() as w:
        case = Case(w, Granted(warned=("bud_1", "bud_2")))
        await case.take()
        assert case.holding.warned == ("bud_1", "bud_2")
        case = Case(w, None, nodes=[node(), node("user", "ann", refuses=False)])
        await case.take()
        assert case.holding.warned == ("bud_user_ann_month",)
