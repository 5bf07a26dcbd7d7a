"""What the billed POST endpoints of the media family share: the client may name its submit intent.

The request's `Idempotency-Key` is read here; the use-case claims it with its hold, and the guard
answers in the use-case's place when the key is not free (`gw/idempotency.py`). A call that
goes on when its client has left counts for the account's concurrency as long (`detached`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar, TypeVarTuple

from msgspec.structs import replace

from actors.catalogs import Catalogs
from actors.jobs.job import VISIBLE, Job, State
from actors.jobs.store import PREFIXES, Jobs
from actors.limits.accounts import LimitLease
from actors.wallet.messages import NewJob
from actors.wallet.pricing import MediaPrice
from actors.wallet.wallets import KeyTaken
from channels.errors import InvalidRequest
from channels.media.canonical import AvatarResult, GeneralVideo
from channels.media.canonical import Submission as MediaSubmission
from channels.media.model import TaskKind
from channels.offload.jobs import read_submission
from channels.registry import ModelSpec
from gw.api.base import ApiHandler, HandlerWriter, begin_span, explain
from gw.api.chat import ModelCall, require_served
from gw.api.services import BASE_URL, MediaServices
from gw.calls.bills import Bill
from gw.calls.call import ResponseWriter
from gw.calls.jobs import JobBill
from gw.calls.media import JSON, Delivery, Media, Pin, SubmitCall, SubmitResult
from gw.calls.request import LargeSubmission
from gw.errors import INVALID_REQUEST, NOT_FOUND, GatewayError, dumps, invalid_request
from gw.idempotency import Submission, fingerprint, fingerprint_of
from gw.media.reading import ListKind, parameters_of, read_list
from gw.voices import Voices, is_voice_id
from metrics import genai
from metrics.logs import redact
from metrics.spans import CallSpan


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


async def detached(
    call: ModelCall,
    submission: Submission | None,
    use_case: Callable[[DetachableWriter], Awaitable[None]],
) -> None:
    """The same for a use-case that its client cannot stop by leaving."""
    writer = DetachableWriter(call)
    try:
        await _guarded(call, submission, lambda: use_case(writer), writer)
    finally:
        writer.ended_attached()


async def _guarded(
    call: ModelCall,
    submission: Submission | None,
    use_case: Callable[[], Awaitable[None]],
    writer: HandlerWriter,
) -> None:
    """The row has the key, so that its owner finds the submissions that belong together."""
    if submission is not None:
        # It is the client's to choose: it may be its API key, by mistake.
        call.detail["request"]["idempotency_key"] = redact(submission.claim.key)
    await call.handler.services.idempotency.run(submission, use_case, writer)


class DetachableWriter(HandlerWriter):
    """Writes the response of a call whose client may leave it running (see `DetachedWriter`).

    The rights to be in flight and to hold the body are the call's, until it has ended.
    """

    def __init__(self, call: ModelCall) -> None:
        super().__init__(call.handler)
        self._admission: LimitLease | None = call.handler.take_admission()
        self._body = call.handler.request.take_body()
        self._is_detached = False

    def detached(self) -> None:
        """The client has left, and the call goes on."""
        self._is_detached = True

    def ended_detached(self, error: Exception | None) -> None:
        """The call has ended without a client: an error is in its row alone."""
        self._leave()
        if error is not None and not isinstance(error, KeyTaken):
            self._handler.log_exception(type(error), error, error.__traceback__)
            self._handler.record_refusal(explain(error))

    def ended_attached(self) -> None:
        """The request has ended, and so has the call unless it was detached."""
        if not self._is_detached:
            self._leave()

    def _leave(self) -> None:
        if self._admission is not None:
            self._admission.leave()
        if self._body is not None:
            self._body.forget()


# What the endpoints share that ask a media upstream for something: the body, the model, the call.
#
# What a body may contain are the tables of `gw/media`; a use-case of `gw/calls` runs the call.

A = TypeVar("A")
Ts = TypeVarTuple("Ts")
S = TypeVar("S", bound=MediaSubmission)


def media_of(handler: ApiHandler) -> MediaServices:
    """What media endpoints use."""
    return handler.services.media


class MediaSubmit:
    """One submission to a media endpoint; `output` is what is made, in the words of a span.

    `begin` makes it: the client's submit intent is read before its body.
    """

    def __init__(self, call: ModelCall, submission: Submission | None, output: str) -> None:
        self._handler = call.handler
        self._call = call
        self._submission = submission
        self._large: LargeSubmission | None = None
        self._output = output

    def __repr__(self) -> str:
        return f"<MediaSubmit {self._output} {self._call!r}>"

    @classmethod
    async def begin(cls, handler: ApiHandler, output: str) -> MediaSubmit:
        """The submission of a request. Raises GatewayError."""
        call = ModelCall(handler)
        return cls(call, await submission_of(call), output)

    # --- What is asked for ---

    async def read(
        self, reading: Callable[[bytes, *Ts], S], *arguments: *Ts, model: Callable[[S], str]
    ) -> S:
        """The request, its model, and whether the key may use it. Raises GatewayError."""
        request = await self.parsed(reading, *arguments)
        self.find_model(model(request), request)
        return request

    async def parsed(self, reading: Callable[[bytes, *Ts], A], *arguments: *Ts) -> A:
        """What `reading` makes of the body and these arguments. Raises GatewayError.

        A large body is read in a helper process, and what may be long of a request stays out.
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

    def find_model(self, named: str, request: MediaSubmission | None = None) -> None:
        """Find the model that is named; the row shows what was read so far. Raises GatewayError."""
        call = self._call
        call.find_model(named, {} if request is None else parameters_of(request))
        require_served(call.model, self._handler.protocol)

    def show(self, request: MediaSubmission) -> None:
        """Have the row show what was asked for, where the model was found before it was read."""
        self.detail["request"].update(parameters_of(request))

    @property
    def detail(self) -> dict[str, Any]:
        """What the call's row keeps of the request."""
        return self._call.detail

    @property
    def model(self) -> ModelSpec:
        """The model of the request that was read."""
        return self._call.model

    def price(self) -> MediaPrice:
        """What the model costs."""
        return MediaPrice.of(self.model)

    # --- The call ---

    def job_call(
        self,
        request: MediaSubmission,
        *,
        job_id: str,
        job: NewJob,
        hold_nano_usd: int,
        cheaper: str,
        status: str,
        pins: tuple[Pin, ...] = (),
        response_body: bytes | None = None,
    ) -> SubmitCall:
        """The call that begins a job; its response has `status`, unless a body is given."""
        handler = self._handler
        begun = {
            "id": job_id,
            "status": status,
            "model": self.model.id,
            "created_at": int(handler.request.submitted_at),
        }
        delivery = Delivery(JSON, dumps(begun) if response_body is None else response_body)

        async def deliver(result: SubmitResult) -> Delivery:
            return delivery  # which has nothing in it that is not known before

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
        request: MediaSubmission,
        *,
        bill: Bill,
        cheaper: str,
        deliver: Callable[[SubmitResult], Awaitable[Delivery]],
        made_id: str | None = None,
        job_id: str | None = None,
        job: NewJob | None = None,
        pins: tuple[Pin, ...] = (),
    ) -> SubmitCall:
        """The call that has it made; `made_id` and `job_id` are as in `CallFacts`."""
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
            submission=self._submission,
            detail=call.detail,
        )

    def _span(self) -> CallSpan:
        call = self._call
        return begin_span(self._handler, call.model, lambda: {genai.OUTPUT_TYPE: self._output})

    # --- Its run: the call is made, or what it was answered before is sent again ---

    async def run(self, call: SubmitCall, media: Media[SubmitCall]) -> None:
        """Have it made, as long as the client waits. Raises GatewayError."""
        await guarded(self._call, self._submission, lambda writer: media.run(call, writer))

    async def run_detached(self, call: SubmitCall, media: Media[SubmitCall]) -> None:
        """Have it made, whether or not the client stays. Raises GatewayError."""
        await detached(
            self._call, self._submission, lambda writer: media.run_detached(call, writer)
        )


# What a request names that was made before: voices and avatars, the account's own or presets.
#
# The upstream's name of each takes the place of ours, and the call is pinned to the channel that
# knows it (contract for media §5). An id of another account's is as unknown as any other.


class Reference(NamedTuple):
    """What an upstream calls it, and the channel that knows it, where only one does."""

    upstream_id: str
    pins: tuple[Pin, ...] = ()


async def own_voice(named: str, voices: Voices, *, account_id: str) -> Reference | None:
    """A voice that the account has cloned; None for what is no id of a cloned voice.

    Raises GatewayError for one that is not the account's, and StoreUnavailable.
    """
    if not is_voice_id(named):
        return None
    voice = await voices.find(named, account_id=account_id)
    if voice is None:
        _refuse("voice", "this account has no voice of this id")
    return Reference(voice.upstream_id, (Pin(voice.channel_id, "voice"),))


async def voice_of(named: str, voices: Voices, catalogs: Catalogs, *, account_id: str) -> Reference:
    """A voice for a digital human: one that was cloned, or a preset.

    Raises GatewayError, CatalogUnavailable and StoreUnavailable.
    """
    own = await own_voice(named, voices, account_id=account_id)
    if own is not None:
        return own
    if not any(offer.item.id == named for offer in await catalogs.preset_voices()):
        _refuse("voice", "there is no voice of this id")
    return Reference(named)


async def avatar_of(named: str, jobs: Jobs, catalogs: Catalogs, *, account_id: str) -> Reference:
    """An avatar: one that the account has registered and that is ready, or a preset.

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


# Lists and single tasks of an account: what the endpoints share that show jobs.

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
    """The list that a query asks for, newest first, with links that are good where they can be had.

    `word_of` are states that clients know by another word. Raises GatewayError, StoreUnavailable.
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
    """One task. Raises GatewayError for one that is not the account's, and StoreUnavailable."""
    media = media_of(handler)
    job = await media.jobs.read(handler.principal.account_id, kind, task_id)
    if job is None:
        raise GatewayError(NOT_FOUND, "There is no task of this id.")
    (job,) = await media.renewal.renewed([job])
    return dumps(shown(job))


def error_of(job: Job) -> dict[str, Any]:
    """The member `error` of a job that did not succeed; nothing of any other."""
    if job.error_code is None:
        return {}
    return {"error": {"code": job.error_code, "message": job.error_message}}
