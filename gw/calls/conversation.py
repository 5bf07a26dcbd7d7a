"""One chat call, in order: estimate, hold, candidates, attempts, answer, settlement.

The heart of the gateway, and the same for every chat protocol. From the moment the hold is granted
there is exactly one way out: `Running.settle`, called before the client is given the last bytes
or, failing that, in `run`'s `finally`. It waits for nothing, so no cancellation can come between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NoReturn

from actors.clock import Clock
from actors.directory import ChannelDirectory
from actors.failover import Answered, NoAnswer, first_answer
from actors.live import LiveCalls
from actors.mailbox import ActorStopped, MailboxFull
from actors.router import candidates
from actors.wallet.pricing import TokenPrice
from actors.wallet.wallets import Wallets
from channels.errors import UpstreamError
from channels.protocols.dialect import Meter
from channels.redact import Redactor
from channels.registry import ModelSpec
from channels.wire.http import Wire
from gw.calls.admission import Admission
from gw.calls.answers import Answer, Refusal, StreamAnswer, WholeAnswer
from gw.calls.attempt import Upstream
from gw.calls.call import AnswerWriter, ChatCall, ClientGone
from gw.calls.ending import (
    CLIENT_GONE,
    STOPPING,
    Ending,
    ending_of_failure,
    ending_of_refusal,
    shown,
)
from gw.calls.estimate import Estimate
from gw.calls.running import Running
from gw.web import errors
from gw.web.errors import GatewayError
from metrics.prometheus import Metrics
from metrics.spans import Attributes


class Conversation:
    """Runs chat calls. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        wallets: Wallets,
        live: LiveCalls,
        channels: ChannelDirectory,
        wire: Wire,
        redactor: Callable[[], Redactor],
        price_of: Callable[[ModelSpec], TokenPrice],
        clock: Clock,
        metrics: Metrics,
        timeout_seconds: float,
        answer_bytes_max: int,
    ) -> None:
        self._admission = Admission(wallets=wallets, clock=clock, metrics=metrics)
        self._wallets = wallets
        self._live = live
        self._channels = channels
        self._upstream = Upstream(wire=wire, clock=clock, answer_bytes_max=answer_bytes_max)
        self._redactor = redactor
        self._price_of = price_of
        self._clock = clock
        self._metrics = metrics
        self._timeout_seconds = timeout_seconds

    async def run(self, call: ChatCall, writer: AnswerWriter) -> None:
        """Serve one call to its end.

        Raises GatewayError while nothing has been sent. Once something has been, a failure ends
        the stream early, without a terminator (spec: Stream failure behaviour).
        """
        price = self._price_of(call.model)
        try:
            expected = await self._admission.hold(call, price, writer)
        except BaseException as error:
            call.span.end(status_ok=False, attributes=_not_admitted(error))
            raise
        writer.owns_row()
        running = self._running(call, price, expected)
        try:
            await self._serve(call, running, writer)
        except ClientGone:
            running.end(CLIENT_GONE)
        except asyncio.CancelledError:
            running.end(CLIENT_GONE if writer.client_gone else STOPPING)
            raise
        except GatewayError as error:
            running.end(shown("rejected", error))
            raise
        except Exception as error:
            running.end(Ending("error", "internal_error", f"{type(error).__name__}"))
            raise
        finally:
            running.settle()
            await running.let_go()

    def _running(self, call: ChatCall, price: TokenPrice, expected: Estimate) -> Running:
        running = Running(
            call=call,
            price=price,
            expected=expected,
            wallets=self._wallets,
            live=self._live,
            clock=self._clock,
            metrics=self._metrics,
            redactor=self._redactor(),
        )
        self._live.enter(call.facts.call_id, running.delivered)
        self._metrics.call_started(call.facts.protocol)
        return running

    async def _serve(self, call: ChatCall, running: Running, writer: AnswerWriter) -> None:
        deadline = asyncio.get_running_loop().time() + self._timeout_seconds
        order = candidates(
            call.model,
            call.facts.protocol,
            self._channels,
            pin=call.pin,
            translations=call.translations,
        )
        running.note_order(order)
        able = [c for c in order if call.tools <= self._channels[c.channel_id].spec.tools]
        if order and not able:
            # contract §7, Built-in tools: a tool that no channel of the model has
            raise GatewayError(errors.TOOL_NOT_SUPPORTED, _NO_TOOL, param="tools")
        try:
            answered = await first_answer(
                able,
                self._channels,
                lambda candidate, lease: self._upstream.attempt(
                    call, candidate, lease, deadline=deadline, running=running
                ),
                clock=self._clock,
                on_failed=running.note_failed,
            )
        except NoAnswer as failure:
            running.note_passed_over(failure.passed_over)
            self._fail(running, ending_of_failure(failure, self._redactor()))
        except (ActorStopped, MailboxFull) as error:
            raise GatewayError(errors.NO_CHANNEL_AVAILABLE, _NO_CHANNEL) from error
        running.note_answered(answered)
        answer = answered.answer
        if isinstance(answer, Refusal):
            running.finish_attempt("success", f"status_{answer.status // 100}xx")
            self._fail(running, ending_of_refusal(answer, self._redactor()))
        elif isinstance(answer, WholeAnswer):
            self._end_complete(running, answer.meter)
            running.first_byte()
            running.settle()
            writer.begin("application/json", answer.headers)
            writer.send(answer.body)
        else:
            await self._relay(running, answered, answer, writer, deadline)

    def _fail(self, running: Running, ending: Ending) -> NoReturn:
        running.end(ending)
        assert ending.error is not None
        raise ending.error

    async def _relay(
        self,
        running: Running,
        answered: Answered[Answer],
        answer: StreamAnswer,
        writer: AnswerWriter,
        deadline: float,
    ) -> None:
        """Pass events on as they come; from the first on there is no failover."""
        meter = answer.meter
        block: bytes | None = answer.first_block
        last: list[bytes] = []  # what is held back until the call is settled
        is_writing = False
        writer.begin(answer.framing.content_type, answer.headers)
        try:
            async with asyncio.timeout_at(deadline):
                while block is not None:
                    if meter.finished:
                        last.append(block)
                        if answer.has_terminator:
                            break
                    else:
                        running.first_byte()
                        is_writing = True
                        await writer.write(block)
                        is_writing = False
                    block = await anext(answer.blocks, None)
        except UpstreamError:
            pass  # cut, unless the end had been seen
        except TimeoutError:
            if not meter.finished:
                # Who kept us waiting? A client that does not read says nothing of the channel.
                running.finish_attempt("abandoned" if is_writing else "failure", "timeout")
                running.end(Ending("interrupted", "upstream_timeout", _TIMED_OUT))
        if running.ending is not None:
            pass
        elif meter.finished:
            self._end_complete(running, meter)
            last.append(answer.framing.end())
        else:
            running.finish_attempt("failure", "cut")
            running.end(Ending("error", "upstream_error", _CUT))
        # Settled before the last bytes go out: whoever reads to the end finds the balance moved.
        running.first_byte()
        running.settle()
        writer.finish(b"".join(last))

    def _end_complete(self, running: Running, meter: Meter) -> None:
        """The answer came to its end, but it may say that it is an error."""
        if meter.error_seen is not None:
            running.finish_attempt("failure", "error_event")
            running.end(Ending("error", "upstream_error", _ERROR_EVENT))
        else:
            running.finish_attempt("success", "ok")
            running.end(Ending("success", None, None))


def _not_admitted(error: BaseException) -> Attributes:
    """What the span of a call says that held nothing: refused, or left before its hold."""
    if isinstance(error, GatewayError):
        return {"gw.status": "rejected", "gw.error_code": error.kind.code}
    return {"gw.status": "interrupted"}


_NO_CHANNEL = "No channel can take this request at the moment."
_NO_TOOL = "A built-in tool of this request is not supported by any channel of this model."
_CUT = "The upstream ended the stream before it was complete."
_ERROR_EVENT = "The upstream reported an error within its answer."
_TIMED_OUT = "The call took longer than the gateway allows."
