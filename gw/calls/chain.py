"""A call of a chain: what each of its models is held and charged for, and which ones are skipped.

A chain is a model of the configuration that other models serve, in its order. The call holds once,
for the dearest of them; once one has responded, its bill replaces that of the dearest one, with
what was held. A model that would lose something of the request is skipped: its price lacks what
the request asks for, its channels lack a built-in tool, or its translation drops a member.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

import msgspec
from msgspec import Struct

from actors.wallet.pricing import Billable
from channels.registry import ModelSpec
from channels.translation.losses import LossReport
from gw.calls.token_bill import TokenBill
from gw.errors import GatewayError

HEADER = "X-Gateway-Model"
# Members of a skipped model in the warning, whose length they bound; the row has all of them.
NAMED_MAX = 8


class Step(Struct, eq=False):
    """One model of a chain, at the account's price. `bill` is set before the hold.

    `agreed`: the agreement that its price is of.
    """

    model: ModelSpec
    billable: Billable | None
    agreed: str | None = None
    bill: TokenBill | None = None


class Chain(Struct, eq=False):
    """The models that may serve one call, by id, in the order to be tried.

    `model`: the chain as configured. `skipped`: models that would lose these members of the
    request.
    """

    model: ModelSpec
    steps: Mapping[str, Step]
    skipped: dict[str, Sequence[str]] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Chain {', '.join(self.steps)} without {', '.join(self.skipped) or 'none'}>"

    @classmethod
    def of(
        cls,
        model: ModelSpec,
        models: Iterable[ModelSpec],
        agreed: Mapping[str, str],
        billed: Callable[[ModelSpec], Billable | None],
    ) -> Chain:
        """Return the chain of a request, whose models are tried in this order.

        `billed` raises GatewayError for a model that lacks something; raises the first of these
        where all do.
        """
        steps, skipped = {}, dict[str, Sequence[str]]()
        first: GatewayError | None = None
        for one in models:
            try:
                steps[one.id] = Step(one, billed(one), agreed.get(one.id))
            except GatewayError as error:
                first = first or error
                skipped[one.id] = lost_of(error)
        if not steps:
            assert first is not None
            raise first
        return cls(model, steps, skipped)

    def hold(self, bill_of: Callable[[ModelSpec, Billable | None], TokenBill]) -> TokenBill:
        """Return the bill of the dearest model, which all of them are held by."""
        bills = []
        for step in self.steps.values():
            step.bill = bill_of(step.model, step.billable)
            bills.append(step.bill)
        dearest = max(bills, key=lambda bill: bill.hold_nano_usd)
        most = max(bill.budget_hold_nano_usd for bill in bills)
        for bill in bills:
            bill.hold_nano_usd, bill.budget_most_nano_usd = dearest.hold_nano_usd, most
        return dearest

    def headers(self, served: str) -> tuple[str, str | None]:
        """Return the model that serves, and the warning of those that were skipped."""
        lost = [
            f"skipped {_shown(model)}: {', '.join(members[:NAMED_MAX])}"
            for model, members in self.skipped.items()
            if model != served
        ]
        return _shown(served), "; ".join(lost) or None


def lost_of(error: GatewayError) -> Sequence[str]:
    """Return the member of a request that a model cannot be told, by its refusal."""
    report = LossReport()
    report.drop(error.param or error.kind.code)
    return report.dropped


def _shown(model_id: str) -> str:
    """Return a model's id for a header, which is printable ASCII: others are percent-encoded."""
    return model_id if model_id.isascii() else quote(model_id, safe=" /:@")
