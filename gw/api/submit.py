"""The shared part of billed POST endpoints of media: submit intents, bodies, models, calls.

The `Idempotency-Key` is read here; the use-case claims it with its hold, and the guard responds
instead of the use-case when the key is not free (`gw/idempotency/guard.py`). A detached call counts
for the account's concurrency until its end (`detached`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar, TypeVarTuple

from msgspec.structs import replace

from actors.catalogs import Catalogs
from actors.jobs.job import VISIBLE, Job, State
from actors.jobs.service import PREFIXES, Jobs
from actors.limits.accounts import Permit
from actors.store.errors import StoreUnavailable
from actors.wallet.messages import NewJob
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.wallets import KeyTaken
from channels.errors import InvalidRequest
from channels.media.canonical import AvatarResult, GeneralVideo, Submission
from channels.media.model import TaskKind
from channels.offload.jobs import read_submission
from channels.registry import ModelSpec
from gw.api.call_spans import begin_span
from gw.api.failures import STORE_MESSAGE, explain
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.api.response_writer import HandlerWriter
from gw.api.services import MediaServices
from gw.api.videos.content_links import BASE_URL
from gw.calls.bills import Bill
from gw.calls.call import ResponseWriter
from gw.calls.jobs import JobBill
from gw.calls.media import JSON, Delivery, Media, Pin, SubmitCall, SubmitResult
from gw.calls.request import LargeSubmission
from gw.error_bodies import dumps
from gw.errors import (
    INVALID_REQUEST,
    NO_CHANNEL_AVAILABLE,
    NOT_FOUND,
    GatewayError,
    invalid_request,
)
from gw.idempotency.claim import IdempotencyClaim, fingerprint_of, read_key
from gw.media.reading import ListKind, parameters_of, read_list
from gw.voices import Voices, is_voice_id
from metrics import genai
from metrics.log_redaction import redact
from metrics.spans import CallSpan


class KeyedHandler(ApiHandler):
    """A billed endpoint whose POST takes an `Idempotency-Key`: `on_submit` is what it does.

    The key is looked up before anything of the body is judged, so that a replay needs nothing but
    the same bytes. The hold decides between two requests at a time.
    """

    limited = billed = idempotent = True
    idempotency: IdempotencyClaim | None = None

    async def on_post(self) -> None:
        call = ModelCall(self)
        if self.idempotency_keys:
            claim = self.idempotency = await _claim_of(call)
            # The client chose it: it may be an API key, by mistake.
            self.row_detail = {"request": {"idempotency_key": redact(claim.claim.key)}}
            try:
                if await self.services.idempotency.replayed(claim, HandlerWriter(self)):
                    return
            except StoreUnavailable as error:  # as a hold is refused then, with no line of its own
                raise GatewayError(NO_CHANNEL_AVAILABLE, STORE_MESSAGE) from error
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
    await call.handler.services.idempotency.run(idempotency, use_case, writer)


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

    def ended_attached(self) -> None:
        """End the request, and the call unless it was detached."""
        if not self._is_detached:
            self._leave()

    def _leave(self) -> None:
        if self._admission is not None:
            self._admission.leave()
        if self._body is not None:
            self._body.forget()


# The shared part of endpoints that use a media upstream: the body, the model, the call.
#
# The tables of `gw/media` validate bodies; a use-case of `gw/calls` runs the call.

A = TypeVar("A")
Ts = TypeVarTuple("Ts")
S = TypeVar("S", bound=Submission)


def media_of(handler: ApiHandler) -> MediaServices:
    """Return the services of media endpoints."""
    return handler.services.media


class MediaSubmit:
    """One submission to a media endpoint; `output` is the kind of result in the span.

    The handler has read its submit intent (`KeyedHandler`).
    """

    def __init__(self, call: ModelCall, output: str) -> None:
        assert isinstance(call.handler, KeyedHandler)
        self._handler = call.handler
        self._call = call
        self._idempotency = call.handler.idempotency
        self._large: LargeSubmission | None = None
        self._output = output

    def __repr__(self) -> str:
        return f"<MediaSubmit {self._output} {self._call!r}>"

    # --- The request ---

    async def read(
        self, reading: Callable[[bytes, *Ts], S], *arguments: *Ts, model: Callable[[S], str]
    ) -> S:
        """Read the request and its model, and check the key's allowlist. Raises GatewayError."""
        request = await self.parsed(reading, *arguments)
        self.find_model(model(request), request)
        return request

    async def parsed(self, reading: Callable[[bytes, *Ts], A], *arguments: *Ts) -> A:
        """Return the body as parsed by `reading` with these arguments. Raises GatewayError.

        A large body is parsed in a helper process, and its long members are left out of the result.
        """
        call, handler = self._call, self._handler
        try:
            if not call.is_heavy:
                return reading(handler.request.body, *arguments)
            read, _ = await call.offload(read_submission, reading, *arguments)
            if isinstance(read, GeneralVideo) and read.may_be_long:
                self._large = LargeSubmission(
                    handler.request.body, call.helpers, reading, arguments
                )
            made: A = read
            return made
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None

    def find_model(self, named: str, request: Submission | None = None) -> None:
        """Find the named model, and put the request into the row. Raises GatewayError."""
        call = self._call
        call.find_model(named, {} if request is None else parameters_of(request))
        call.require_served()

    def show(self, request: Submission) -> None:
        """Put the request into the row, where the model was found before the request was read."""
        self.detail["request"].update(parameters_of(request))

    @property
    def detail(self) -> dict[str, Any]:
        """The row's detail of the request."""
        return self._call.detail

    @property
    def model(self) -> ModelSpec:
        """The model of the request, after `read` or `find_model`."""
        return self._call.model

    def price(self) -> MediaPrice:
        """Return the price of the model."""
        return MediaPrice.of(self.model)

    # --- The call ---

    def job_call(
        self,
        request: Submission,
        *,
        job_id: str,
        job: NewJob,
        hold_nano_usd: int,
        cheaper: str,
        status: str,
        pins: tuple[Pin, ...] = (),
        response_body: bytes | None = None,
    ) -> SubmitCall:
        """Return the call that begins a job; it responds with `status`, or with `response_body`."""
        handler = self._handler
        begun = {
            "id": job_id,
            "status": status,
            "model": self.model.id,
            "created_at": int(handler.request.submitted_at),
        }
        delivery = Delivery(JSON, dumps(begun) if response_body is None else response_body)

        async def deliver(result: SubmitResult) -> Delivery:
            return delivery  # which has no new facts

        return self.call(
            request,
            bill=JobBill(job.price, hold_nano_usd),
            cheaper=cheaper,
            deliver=deliver,
            job_id=job_id,
            job=replace(job, request={**job.request, BASE_URL: handler.base_url()}),
            pins=pins,
        )

    def call(
        self,
        request: Submission,
        *,
        bill: Bill,
        cheaper: str,
        deliver: Callable[[SubmitResult], Awaitable[Delivery]],
        made_id: str | None = None,
        job_id: str | None = None,
        job: NewJob | None = None,
        pins: tuple[Pin, ...] = (),
    ) -> SubmitCall:
        """Return the call; `made_id` and `job_id` are as in `CallFacts`."""
        handler, call = self._handler, self._call
        return SubmitCall(
            facts=replace(call.facts(), made_id=made_id, job_id=job_id),
            model=call.model,
            cap_nano_usd=handler.principal.spend_cap_nano_usd,
            bill=bill,
            cheaper=cheaper,
            job=job,
            request=request,
            deliver=deliver,
            span=self._span(),
            started=handler.services.clock.monotonic(),
            pins=pins,
            large=self._large,
            idempotency=self._idempotency,
            detail=call.detail,
        )

    def _span(self) -> CallSpan:
        call = self._call
        return begin_span(self._handler, call.model, lambda: {genai.OUTPUT_TYPE: self._output})

    # --- The run: of the call, or a replay of its response ---

    async def run(self, call: SubmitCall, media: Media[SubmitCall]) -> None:
        """Run the call while the client is connected. Raises GatewayError."""
        await guarded(self._call, self._idempotency, lambda writer: media.run(call, writer))

    async def run_detached(self, call: SubmitCall, media: Media[SubmitCall]) -> None:
        """Run the call even if the client disconnects. Raises GatewayError."""
        await detached(
            self._call, self._idempotency, lambda writer: media.run_detached(call, writer)
        )


# References of a request to earlier results: voices and avatars, the account's own or presets.
#
# The upstream's name replaces ours, and the call is pinned to the channel that knows it (contract
# for media §5). An id of another account is treated as unknown.


class Reference(NamedTuple):
    """The upstream's name, and the channel that knows it, if only one does."""

    upstream_id: str
    pins: tuple[Pin, ...] = ()


async def own_voice(named: str, voices: Voices, *, account_id: str) -> Reference | None:
    """Return a voice cloned by the account; None for ids of another kind.

    Raises GatewayError for a voice of another account, and StoreUnavailable.
    """
    if not is_voice_id(named):
        return None
    voice = await voices.find(named, account_id=account_id)
    if voice is None:
        _refuse("voice", "this account has no voice of this id")
    return Reference(voice.upstream_id, (Pin(voice.channel_id, "voice"),))


async def voice_of(named: str, voices: Voices, catalogs: Catalogs, *, account_id: str) -> Reference:
    """Return a voice for a digital human: a cloned one, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    own = await own_voice(named, voices, account_id=account_id)
    if own is not None:
        return own
    if not any(offer.item.id == named for offer in await catalogs.preset_voices()):
        _refuse("voice", "there is no voice of this id")
    return Reference(named)


async def avatar_of(named: str, jobs: Jobs, catalogs: Catalogs, *, account_id: str) -> Reference:
    """Return an avatar: a ready one registered by the account, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    if named.startswith(PREFIXES["avatar"]):
        job = await jobs.read(account_id, "avatar", named)
        if job is not None and not job.has_ended:
            _refuse("avatar", "this avatar is not ready yet")
        result = None if job is None else job.result
        if job is not None and isinstance(result, AvatarResult):
            assert job.channel_id is not None
            return Reference(result.upstream_id, (Pin(job.channel_id, "avatar"),))
        if job is not None:
            _refuse("avatar", "this avatar could not be made")
    offers = await catalogs.preset_avatars()
    channel_id = next((offer.channel_id for offer in offers if offer.item.id == named), None)
    if channel_id is None:
        _refuse("avatar", "there is no avatar of this id")
    return Reference(named, (Pin(channel_id, "avatar"),))


def _refuse(param: str, why: str) -> NoReturn:
    raise GatewayError(INVALID_REQUEST, f"{param}: {why}.", param=param)


# Lists and single tasks of an account, for the endpoints that show jobs.

Shown = Callable[[Job], Mapping[str, Any]]

_AS_THEY_ARE: Mapping[State, str] = MappingProxyType({})


async def listed(
    handler: ApiHandler,
    kind: TaskKind,
    words: ListKind,
    shown: Shown,
    *,
    word_of: Mapping[State, str] = _AS_THEY_ARE,
) -> bytes:
    """Return the list for a query, newest first, with valid links where possible.

    `word_of` maps states to the client's names. Raises GatewayError, StoreUnavailable.
    """
    names = ("limit", "status", "before")
    try:
        query = read_list({name: handler.get_query_argument(name, "") for name in names}, words)
    except InvalidRequest as invalid:
        raise invalid_request(invalid) from None
    media = media_of(handler)
    jobs = await media.jobs.list(
        handler.principal.account_id,
        kind,
        states=[
            state
            for state in VISIBLE
            if not query.states or word_of.get(state, state) in query.states
        ],
        limit=query.limit,
        before=query.before,
    )
    return dumps({"data": [shown(job) for job in await media.renewal.renewed(jobs)]})


async def polled(handler: ApiHandler, kind: TaskKind, task_id: str, shown: Shown) -> bytes:
    """Return one task. Raises GatewayError for a task of another account, and StoreUnavailable."""
    media = media_of(handler)
    job = await media.jobs.read(handler.principal.account_id, kind, task_id)
    if job is None:
        raise GatewayError(NOT_FOUND, "There is no task of this id.")
    (job,) = await media.renewal.renewed([job])
    return dumps(shown(job))


def error_of(job: Job) -> dict[str, Any]:
    """Return the member `error` of an unsuccessful job; empty for any other."""
    if job.error_code is None:
        return {}
    return {"error": {"code": job.error_code, "message": job.error_message}}
