"""A call from its hold to its settlement, whatever it is and whatever happens in between.

From the moment the hold is granted there is exactly one way out: `Running.settle`, called before
the client is given the last bytes or, failing that, in `run`'s `finally`. It waits for nothing, so
no cancellation can come between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from actors.clock import Clock
from actors.live import LiveCalls
from actors.wallet.wallets import KeyTaken, Wallets
from channels.redact import Redactor
from gw.calls.admission import Admission
from gw.calls.bill import Bill
from gw.calls.call import AnswerWriter, ClientGone, PaidCall
from gw.calls.ending import CLIENT_GONE, STOPPING, Ending, shown
from gw.calls.running import Running
from gw.errors.table import GatewayError
from gw.idempotency.submission import Submission
from metrics.prometheus import Metrics
from metrics.spans import Attributes

B = TypeVar("B", bound=Bill)


class Billing:
    """Runs calls that cost money. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        wallets: Wallets,
        live: LiveCalls,
        redactor: Callable[[], Redactor],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._admission = Admission(wallets=wallets, clock=clock, metrics=metrics)
        self._wallets = wallets
        self._live = live
        self._redactor = redactor
        self._clock = clock
        self._metrics = metrics

    async def run(
        self,
        call: PaidCall,
        bill: B,
        serve: Callable[[Running[B]], Awaitable[None]],
        writer: AnswerWriter,
        *,
        hold_nano_usd: int,
        cheaper: str,
        submission: Submission | None = None,
    ) -> None:
        """Hold, serve, settle.

        `cheaper` tells a client that is refused what would cost less. Raises GatewayError while
        nothing has been sent, KeyTaken when the idempotency key of the submission is not free. Once
        something has been sent, a failure ends the answer early.
        """
        terms = {**bill.terms, "hold": hold_nano_usd}
        call.detail.update(terms)
        try:
            await self._admission.hold(
                call,
                hold_nano_usd,
                writer,
                terms=terms,
                cheaper=cheaper,
                claim=submission.claim if submission is not None else None,
            )
        except BaseException as error:
            call.span.end(status_ok=False, attributes=_not_admitted(error))
            raise
        writer.owns_row()
        running = Running(
            call=call,
            bill=bill,
            wallets=self._wallets,
            live=self._live,
            clock=self._clock,
            metrics=self._metrics,
            redactor=self._redactor(),
            submission=submission,
        )
        self._live.enter(call.facts.call_id, running.delivered)
        self._metrics.call_started(call.facts.protocol)
        try:
            await serve(running)
        except ClientGone:
            running.end(CLIENT_GONE)
        except asyncio.CancelledError:
            running.end(CLIENT_GONE if writer.client_gone else STOPPING)
            raise
        except GatewayError as error:
            running.end(shown("rejected", error))
            running.settle()
            await running.until_durable()
            raise
        except Exception as error:
            running.end(Ending("error", "internal_error", f"{type(error).__name__}"))
            raise
        finally:
            running.settle()
            await running.let_go()


def _not_admitted(error: BaseException) -> Attributes:
    """What the span of a call says that held nothing: refused, or left before its hold."""
    if isinstance(error, GatewayError):
        return {"gw.status": "rejected", "gw.error_code": error.kind.code}
    if isinstance(error, KeyTaken):
        return {"gw.status": "not_executed", "gw.idempotency": error.standing}
    return {"gw.status": "interrupted"}
