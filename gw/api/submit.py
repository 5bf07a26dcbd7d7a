"""What the billed POST endpoints of the media family share: the client may name its submit intent.

The request's `Idempotency-Key` is read here; the use-case claims it with its hold, and the guard
answers in the use-case's place when the key is not free (`gw/idempotency/guard.py`). A call that
goes on when its client has left counts for the account's concurrency as long (`unattended`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.wallet.wallets import KeyTaken
from gw.api.model_call import ModelCall
from gw.api.services import LimitLease
from gw.api.writer import HandlerWriter
from gw.calls.call import ResponseWriter
from gw.errors.unexpected import explain
from gw.idempotency.submission import Submission, fingerprint, fingerprint_of
from metrics.redact import redact


async def submission_of(call: ModelCall) -> Submission | None:
    """The submit intent of the call's request; None without a key. Raises GatewayError."""
    handler = call.handler
    request, keys = handler.request, handler.idempotency_keys
    method, path = request.method, request.path
    assert method is not None
    asked: bytes | None = None
    if call.is_heavy and keys:
        asked, _ = await call.offload(fingerprint_of, method, path)
    return handler.services.idempotency.submission(
        keys,
        account_id=handler.principal.account_id,
        asked=lambda: asked or fingerprint(method=method, path=path, body=request.body),
    )


async def guarded(
    call: ModelCall,
    submission: Submission | None,
    use_case: Callable[[ResponseWriter], Awaitable[None]],
) -> None:
    """Run the use-case, or replay. Raises GatewayError while nothing has been sent."""
    writer = HandlerWriter(call.handler)
    await _guarded(call, submission, lambda: use_case(writer), writer)


async def unattended(
    call: ModelCall,
    submission: Submission | None,
    use_case: Callable[[UnattendedWriter], Awaitable[None]],
) -> None:
    """The same for a use-case that its client cannot stop by leaving."""
    writer = UnattendedWriter(call)
    try:
        await _guarded(call, submission, lambda: use_case(writer), writer)
    finally:
        writer.ended_attended()


async def _guarded(
    call: ModelCall,
    submission: Submission | None,
    use_case: Callable[[], Awaitable[None]],
    writer: HandlerWriter,
) -> None:
    """The row tells the key, so that its owner finds the submissions that belong together."""
    if submission is not None:
        # It is the client's to choose: it may be its API key, by mistake.
        call.detail["request"]["idempotency_key"] = redact(submission.claim.key)
    await call.handler.services.idempotency.run(submission, use_case, writer)


class UnattendedWriter(HandlerWriter):
    """Writes the response of a call whose client may leave it alone (see `Attendant`).

    The rights to be in flight and to hold the body are the call's, until it has ended.
    """

    def __init__(self, call: ModelCall) -> None:
        super().__init__(call.handler)
        self._admission: LimitLease | None = call.handler.take_admission()
        self._body = call.handler.request.take_body()
        self._is_left_alone = False

    def left_alone(self) -> None:
        """The client has left, and the call goes on."""
        self._is_left_alone = True

    def ended_alone(self, error: Exception | None) -> None:
        """The call has ended without a client: of an error it is told by its row alone."""
        self._leave()
        if error is not None and not isinstance(error, KeyTaken):
            self._handler.log_exception(type(error), error, error.__traceback__)
            self._handler.record_refusal(explain(error))

    def ended_attended(self) -> None:
        """The request has ended, and so has the call unless its client has left it alone."""
        if not self._is_left_alone:
            self._leave()

    def _leave(self) -> None:
        if self._admission is not None:
            self._admission.leave()
        if self._body is not None:
            self._body.forget()
