"""The rules of idempotency keys on top of the ledger's: who gets a key, who is told what stands.

Two keys, two requests, batches in which they meet, and time that passes: small enough that every
way the table of states (reference 1.10) can be walked is walked often.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, rule
from msgspec.structs import replace

from actors.wallet.batch import Batch
from actors.wallet.claims import Claim, ClaimEnd, ClaimState, Free, KeptResponse, ResponseTooLarge
from actors.wallet.messages import CallFacts, Hold
from actors.wallet.rows import encode_void
from tests.support.fake_claims import CLAIM_SECONDS, KEEP_SECONDS
from tests.support.ledger_machine import CAP, KEYS, LedgerMachine, accounts, amounts

BODY = b'{"data": ["\xc3\xa9\x00\xff"]}'
ENDS: dict[str, ClaimEnd] = {
    "stored": KeptResponse(status=200, headers=(("Content-Type", "application/json"),), body=BODY),
    "too_large": ResponseTooLarge(),
    "free": Free(),
    "left": None,
}
wishes = st.tuples(st.sampled_from(("k1", "k2")), st.sampled_from((b"one", b"two")), amounts)

# Account and key -> call, state, body.
ClaimRows = dict[tuple[str, str], tuple[UUID, str, bytes | None]]


@dataclass
class Claimed:
    """One key as the model has it."""

    call_id: UUID
    fingerprint: bytes
    expires_at: float
    state: str = "executing"


class ClaimMachine(LedgerMachine):
    """The ledger with idempotency keys. Subclasses let time pass and list the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[tuple[str, str], Claimed] = {}
        self.now = 0.0

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    def claim_rows(self) -> ClaimRows:
        raise NotImplementedError

    @initialize()
    def everybody_has_money(self) -> None:
        for account in KEYS:
            self.credit(account=account, amount=1000)

    @rule(
        target=LedgerMachine.calls,
        account=accounts,
        key_index=st.integers(min_value=0, max_value=1),
        wished=st.lists(wishes, min_size=1, max_size=4),
    )
    def hold_in_the_name_of_keys(
        self, account: str, key_index: int, wished: list[tuple[str, bytes, int]]
    ) -> Any:
        """Within one batch too, the first in line gets the key if it gets the money."""
        keys = KEYS[account]
        key = keys[key_index % len(keys)]
        cap = CAP if key.endswith("capped") else None
        holds = [
            Hold(
                facts=self.new_facts(account, key),
                amount_nano_usd=amount,
                cap_nano_usd=cap,
                claim=Claim(key=name, fingerprint=fingerprint),
            )
            for name, fingerprint, amount in wished
        ]
        applied = self.run(Batch(holds=holds))
        for seq, (hold, (name, fingerprint, amount)) in enumerate(zip(holds, wished, strict=True)):
            standing = self._expect_standing(account, name, fingerprint)
            refusal = None if standing else self.expect_hold(account, key, amount, cap)
            assert applied.taken.get(seq) == standing
            assert applied.refused.get(seq) == refusal
            if self.open_if(standing is None and refusal is None, hold.facts, amount):
                call_id = hold.facts.call_id
                self.claims[account, name] = Claimed(call_id, fingerprint, self.now + CLAIM_SECONDS)
        return multiple(*(hold.facts for hold in holds))

    @rule(
        facts=LedgerMachine.calls,
        cost=st.integers(min_value=0, max_value=800),
        end=st.sampled_from(list(ENDS)),
    )
    def settle_with_its_key(self, facts: CallFacts, cost: int, end: str) -> None:
        """Also for calls that have no key, no longer have it, or never got it."""
        ending = replace(self.settlement(facts, cost), claim_end=ENDS[end])
        self.run(Batch(settlements=[ending]))
        self._end_claim(facts, end)
        self.close(facts, cost)

    @rule(facts=LedgerMachine.calls)
    def void_with_its_key(self, facts: CallFacts) -> None:
        if facts.call_id in self.handed_over:  # somebody has learnt of its hold
            return
        self.run(Batch(settlements=[encode_void(facts, has_claim=True)]))
        self._end_claim(facts, "free", is_void=True)
        self.close(facts, 0, status=None)

    @rule(seconds=st.sampled_from((60.0, CLAIM_SECONDS, KEEP_SECONDS)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.pass_time(seconds)

    @invariant()
    def keys_are_as_the_model_says(self) -> None:
        expected = {
            place: (row.call_id, row.state, BODY if row.state == "stored" else None)
            for place, row in self.claims.items()
        }
        assert self.claim_rows() == expected

    def _expect_standing(self, account: str, name: str, fingerprint: bytes) -> ClaimState | None:
        row = self.claims.get((account, name))
        if row is None:
            return None
        is_under_way = row.state == "executing" and row.call_id in self.open
        if row.expires_at <= self.now and not is_under_way:
            return None
        if row.state == "executing":
            return "in_flight"
        if row.fingerprint != fingerprint:
            return "reuse"
        return "stored" if row.state == "stored" else "too_large"

    def _end_claim(self, facts: CallFacts, end: str, *, is_void: bool = False) -> None:
        is_late = facts.call_id in (self.ever_recovered if is_void else self.recovered)
        if not (facts.call_id in self.open or is_late) or end == "left":
            return
        for place, row in list(self.claims.items()):
            if row.call_id == facts.call_id and row.state == "executing":
                if end == "free":
                    del self.claims[place]
                else:
                    row.state, row.expires_at = end, self.now + KEEP_SECONDS
