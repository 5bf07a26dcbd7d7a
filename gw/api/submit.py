"""What the billed POST endpoints of the media family share: the client may name its submit intent.

The request's `Idempotency-Key` is read here; the use-case claims it with its hold, and the guard
answers in the use-case's place when the key is not free (`gw/idempotency/guard.py`). Where the call
begins a job it may go on when its client has left; it counts for the account's concurrency as long.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.wallet.wallets import KeyTaken
from gw.api.model_call import ModelCallHandler
from gw.api.writer import HandlerWriter
from gw.calls.call import ResponseWriter
from gw.calls.job import JobCall
from gw.calls.job_submit import JobSubmit
from gw.errors.unexpected import explain
from gw.idempotency.submission import Submission, fingerprint, fingerprint_of
from metrics.redact import redact


class SubmitHandler(ModelCallHandler):
    """One submission (spec: Idempotency on billed POST endpoints)."""

    idempotent = True

    async def submission(self) -> Submission | None:
        """The submit intent of this request; None without a key. Raises GatewayError."""
        method, path = self.request.method, self.request.path
        assert method is not None
        asked: bytes | None = None
        if self.is_heavy and self.idempotency_keys:
            asked, _ = await self.offload(fingerprint_of, method, path)
        return self.services.idempotency.submission(
            self.idempotency_keys,
            account_id=self.principal.account_id,
            asked=lambda: asked or fingerprint(method=method, path=path, body=self.request.body),
        )

    async def guarded(
        self,
        submission: Submission | None,
        use_case: Callable[[ResponseWriter], Awaitable[None]],
    ) -> None:
        """Run the use-case, or replay. Raises GatewayError while nothing has been sent.

        The row tells the key, so that its owner finds the submissions that belong together.
        """
        writer = HandlerWriter(self)
        if submission is not None:
            # It is the client's to choose: it may be its API key, by mistake.
            self._detail["request"]["idempotency_key"] = redact(submission.claim.key)
        await self.services.idempotency.run(submission, lambda: use_case(writer), writer)


class JobWriter(HandlerWriter):
    """Writes the response of a submission, whose client may leave it alone."""

    def __init__(self, handler: JobSubmitHandler) -> None:
        super().__init__(handler)
        self._submits = handler

    def left_alone(self) -> None:
        """See `Attendant`."""
        self._submits.left_alone()

    def ended_alone(self, error: Exception | None) -> None:
        """See `Attendant`."""
        self._submits.ended_alone(error)


class JobSubmitHandler(SubmitHandler):
    """One submission of a job."""

    _is_submitting = False
    _is_left_alone = False
    _is_released = False  # but for what the account's limits have given

    async def submit(self, call: JobCall, job_submit: JobSubmit) -> None:
        """Submit the job, or replay. Raises GatewayError while nothing has been sent."""
        await self.unattended(call.submission, lambda writer: job_submit.run(call, writer))

    async def unattended(
        self, submission: Submission | None, use_case: Callable[[JobWriter], Awaitable[None]]
    ) -> None:
        """Run a use-case that its client cannot stop, or replay. Raises as `submit` does."""
        writer = JobWriter(self)

        async def run(_: ResponseWriter) -> None:
            await use_case(writer)

        self._is_submitting = True
        try:
            await self.guarded(submission, run)
        finally:
            if not self._is_left_alone:
                self._end_submitting()

    def release(self) -> None:
        if self._is_submitting:
            self.held()
            self._is_released = True
        else:
            super().release()

    def left_alone(self) -> None:
        """The client has left, and the submission goes on."""
        self._is_left_alone = True

    def ended_alone(self, error: Exception | None) -> None:
        """The submission has ended without a client: of an error it is told by its row alone."""
        self._end_submitting()
        if error is not None and not isinstance(error, KeyTaken):
            self.log_exception(type(error), error, error.__traceback__)
            self.record_refusal(explain(error))

    def _end_submitting(self) -> None:
        self._is_submitting = False
        if self._is_released:
            super().release()
