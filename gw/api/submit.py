"""What the billed POST endpoints of the media family share: the client may name its submit intent.

The request's `Idempotency-Key` is read here; the use-case claims it with its hold, and the guard
answers in the use-case's place when the key is not free (`gw/idempotency/guard.py`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from gw.api.model_call import ModelCallHandler
from gw.api.writer import HandlerWriter
from gw.calls.call import ResponseWriter
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
