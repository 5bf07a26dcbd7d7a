"""Holds what a call may cost, or says why it is not admitted (spec: Limits: pre-charge, holds).

How much that is, its use-case knows; whether the balance covers it is the wallet's word.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from actors.clock import Clock
from actors.wallet.claims import Claim
from actors.wallet.jobs import NewJob
from actors.wallet.messages import Hold, LedgerUnavailable, Outcome
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.wallets import HoldRefused, Wallets
from gw.calls.call import Client, PaidCall
from gw.calls.outcome import CLIENT_GONE, STOPPING
from gw.errors import table as errors
from gw.errors.table import GatewayError
from metrics.prometheus import Metrics


class HoldAdmission:
    """Admits calls. One per process; holds no state of its own."""

    def __init__(self, *, wallets: Wallets, clock: Clock, metrics: Metrics) -> None:
        self._wallets = wallets
        self._clock = clock
        self._metrics = metrics

    async def hold(
        self,
        call: PaidCall,
        amount_nano_usd: int,
        client: Client,
        *,
        terms: Mapping[str, Any],
        cheaper: str,
        claim: Claim | None = None,
        job: NewJob | None = None,
    ) -> None:
        """Hold what a call may cost, with the idempotency key that it claims and the job it begins.

        Raises GatewayError when it is not admitted, KeyTaken when the key is not free.

        `terms` stay with the hold, for the row that recovery may have to write. `cheaper` tells
        what would cost less. A call that is cancelled before its response from the
        ledger holds nothing and has its row.
        """
        if amount_nano_usd > MAX_NANO_USD:
            # An absurd maximum asks for more than any balance can cover.
            raise GatewayError(errors.QUOTA_EXCEEDED, f"{_NOT_COVERED} {cheaper}")
        try:
            await self._wallets.hold(
                Hold(
                    facts=call.facts,
                    amount_nano_usd=amount_nano_usd,
                    cap_nano_usd=call.cap_nano_usd,
                    detail=terms,
                    claim=claim,
                    job=job,
                )
            )
        except HoldRefused as refused:
            why = _SPEND_CAP if refused.reason == "spend_cap" else _NOT_COVERED
            raise GatewayError(errors.QUOTA_EXCEEDED, f"{why} {cheaper}") from refused
        except LedgerUnavailable as error:
            raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _LEDGER_AWAY) from error
        except asyncio.CancelledError:
            client.owns_row()
            self._record_cancelled(call, is_client_gone=client.client_gone)
            raise

    def _record_cancelled(self, call: PaidCall, *, is_client_gone: bool) -> None:
        """Write the row of a call that ended before its hold was granted: nothing to settle."""
        ending = CLIENT_GONE if is_client_gone else STOPPING
        now = self._clock.now()
        seconds = self._clock.monotonic() - call.started
        self._wallets.record(
            call.facts,
            Outcome(
                status=ending.status,
                cost_nano_usd=0,
                created_at=now,
                latency_ms=round(seconds * 1000),
                error_code=ending.code,
                error_message=ending.message,
                detail=call.detail,
            ),
        )
        protocol = call.facts.protocol
        self._metrics.call_started(protocol)
        self._metrics.call_finished(
            protocol=protocol,
            model=call.model.id,
            status=ending.status,
            code=ending.code or "ok",
            seconds=seconds,
        )


_NOT_COVERED = "The balance does not cover the estimated cost of this request. Top up the account,"
_SPEND_CAP = "This key has reached its spend cap. Raise the cap,"
_LEDGER_AWAY = "The gateway cannot reach its ledger at the moment. Nothing was charged; try again."
