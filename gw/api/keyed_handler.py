"""A billed POST endpoint with submit intents: a handler that reads `Idempotency-Key`.

The use-case claims the key with its hold, and the guard responds instead of the use-case when the
key is not free (`gw/idempotency/guard.py`). A detached call counts for the account's concurrency
until its end (`detached`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from actors.limits.accounts import Permit
from actors.store.errors import StoreUnavailable
from actors.wallet.wallets import KeyTaken
from gw.api.failures import STORE_MESSAGE, explain
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.api.response_writer import HandlerWriter
from gw.calls.call import ResponseWriter
from gw.errors import NO_CHANNEL_AVAILABLE, GatewayError
from gw.http.handled_errors import forget_frames
from gw.idempotency.claim import IdempotencyClaim, fingerprint_of, read_key
from metrics.log_redaction import redact


class KeyedHandler(ApiHandler):
    """A billed endpoint whose POST takes an `Idempotency-Key`: `on_submit` is what it does.

    The key is looked up before anything of the body, or of the call's headers, is judged, so that a
    replay needs nothing but the same bytes. The hold decides between two requests at a time.
    """

    idempotency: IdempotencyClaim | None = None

    async def on_post(self) -> None:
        call = ModelCall(self, reads_headers=False)
        if self.idempotency_keys:
            claim = self.idempotency = await _claim_of(call)
            # The client chose it: it may be an API key, by mistake.
            self.row_detail = {"request": {"idempotency_key": redact(claim.claim.key)}}
            try:
                if await self.services.idempotency.replayed(claim, HandlerWriter(self)):
                    return
            except StoreUnavailable as error:  # as a hold is refused then, with no line of its own
                raise GatewayError(NO_CHANNEL_AVAILABLE, STORE_MESSAGE) from error
        call.read_headers()
        await self.on_submit(call)

    async def on_submit(self, call: ModelCall, /) -> None:
        """Serve a request that is no replay. Raises GatewayError."""
        raise NotImplementedError


async def _claim_of(call: ModelCall) -> IdempotencyClaim:
    """Return the submit intent of a request with a key. Raises GatewayError."""
    handler = call.handler
    request, keys = handler.request, handler.idempotency_keys
    key = read_key(keys)
    assert key is not None
    about = (request.method or "", request.path, request.headers.get("Content-Type"))
    if call.is_heavy:
        asked, _ = await call.offload(fingerprint_of, *about)
    else:
        asked, _ = fingerprint_of(request.body, *about)
    return handler.services.idempotency.claim_of(handler.principal.account_id, key, asked)


async def guarded(
    call: ModelCall,
    idempotency: IdempotencyClaim | None,
    use_case: Callable[[ResponseWriter], Awaitable[None]],
) -> None:
    """Run the use-case, or replay its response. Raises GatewayError while nothing has been sent."""
    writer = HandlerWriter(call.handler)
    await _guarded(call, idempotency, lambda: use_case(writer), writer)


async def detached(
    call: ModelCall,
    idempotency: IdempotencyClaim | None,
    use_case: Callable[[DetachableWriter], Awaitable[None]],
) -> None:
    """Like `guarded`, for a use-case that continues after a disconnect of the client."""
    writer = DetachableWriter(call)
    try:
        await _guarded(call, idempotency, lambda: use_case(writer), writer)
    finally:
        writer.ended_attached()


async def _guarded(
    call: ModelCall,
    idempotency: IdempotencyClaim | None,
    use_case: Callable[[], Awaitable[None]],
    writer: HandlerWriter,
) -> None:
    """Run or replay, with the key in the row, so that its owner finds related submissions."""
    if idempotency is not None:
        # The client chose it: it may be an API key, by mistake.
        call.detail["request"]["idempotency_key"] = redact(idempotency.claim.key)
    await call.handler.services.idempotency.run_once(idempotency, use_case, writer)


class DetachableWriter(HandlerWriter):
    """Writes the response of a call that may be detached (see `DetachedWriter`).

    The call keeps the account's permit and the body's bytes until its end.
    """

    def __init__(self, call: ModelCall) -> None:
        super().__init__(call.handler)
        self._admission: Permit | None = call.handler.take_admission()
        self._body = call.handler.request.take_body()
        self._is_detached = False

    def detached(self) -> None:
        """Take over permit and body: the client has disconnected, and the call continues."""
        self._is_detached = True

    def ended_detached(self, error: Exception | None) -> None:
        """End a detached call; its error is only in its row."""
        self._leave()
        if error is not None and not isinstance(error, KeyTaken):
            self._handler.log_exception(type(error), error, error.__traceback__)
            self._handler.record_refusal(explain(error))
            forget_frames(error)

    def ended_attached(self) -> None:
        """End the request, and the call unless it was detached."""
        if not self._is_detached:
            self._leave()

    def _leave(self) -> None:
        if self._admission is not None:
            self._admission.leave()
        if self._body is not None:
            self._body.forget()
