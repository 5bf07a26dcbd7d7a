"""Routes of the ledger's verification."""

from __future__ import annotations

from msgspec import Struct

from gw.admin.ledger import ProofState
from gw.api.admin.table import AdminCall, Route, route


class Proof(Struct, forbid_unknown_fields=True):
    """What to verify besides the balances: each call's cost, everything since the first entry."""

    costs: bool = False
    all: bool = False


async def show_proof(call: AdminCall) -> ProofState:
    """What the last proof of the ledger found, and whether one runs."""
    return await call.services.proofs.state()


async def run_proof(call: AdminCall) -> ProofState:
    """Prove the ledger; the response waits ten seconds for the end at most."""
    body: Proof = call.body
    return await call.services.proofs.run_proof(
        call.actor, with_costs=body.costs, is_everything=body.all
    )


ROUTES: tuple[Route, ...] = (
    route("GET", "ledger/proof", show_proof),
    route("POST", "ledger/proof", run_proof, body=Proof),
)
