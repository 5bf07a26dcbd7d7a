"""What the endpoints share that ask a media upstream for something: the body, the model, the call.

What a body may say are the tables of `gw/media`; a use-case of `gw/calls` runs the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple, cast

from msgspec.structs import replace

from actors.wallet.jobs import NewJob
from actors.wallet.unit_pricing import MediaPrice
from channels.errors import InvalidRequest
from channels.media.requests import GeneralVideo
from channels.media.requests import Submission as MediaSubmission
from channels.offload.submissions import read_submission
from channels.registry import ModelSpec
from gw.api.base import ApiHandler
from gw.api.call_spans import begin_span
from gw.api.media_services import MediaServices
from gw.api.model_call import ModelCall, require_served
from gw.api.submit import UnattendedWriter, guarded, submission_of, unattended
from gw.calls.exchange_upstream import Made
from gw.calls.job import JobCall, Pin
from gw.calls.job_submit import JobSubmit
from gw.calls.request import LargeSubmission
from gw.calls.unit_bill import UnitBill
from gw.calls.whole_submit import Delivery, WholeCall, WholeSubmit
from gw.content_links import BASE_URL
from gw.errors.render import dumps
from gw.errors.table import invalid_request
from gw.idempotency.submission import Submission
from gw.media import parameters_of
from metrics import genai
from metrics.spans import CallSpan

A = TypeVar("A")
Ts = TypeVarTuple("Ts")
S = TypeVar("S", bound=MediaSubmission)


def media_of(handler: ApiHandler) -> MediaServices:
    """What media endpoints use."""
    return cast(MediaServices, handler.settings["media"])


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
                    handler.request.body, handler.services.offload, reading, arguments
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
    ) -> JobCall:
        """The call that begins a job; its response says `status`, unless a body is given."""
        handler, call = self._handler, self._call
        begun = {
            "id": job_id,
            "status": status,
            "model": call.model.id,
            "created_at": int(handler.request.submitted_at),
        }
        return JobCall(
            facts=replace(call.facts(), job_id=job_id),
            model=call.model,
            cap_nano_usd=handler.principal.spend_cap_nano_usd,
            job=replace(job, request={**job.request, BASE_URL: handler.base_url()}),
            hold_nano_usd=hold_nano_usd,
            cheaper=cheaper,
            request=request,
            response_body=dumps(begun) if response_body is None else response_body,
            span=self._span(),
            started=handler.services.clock.monotonic(),
            pins=pins,
            large=self._large,
            submission=self._submission,
            detail=call.detail,
        )

    def whole_call(
        self,
        request: MediaSubmission,
        *,
        bill: UnitBill,
        cheaper: str,
        upstream_key: str,
        deliver: Callable[[Made], Awaitable[Delivery]],
        pins: tuple[Pin, ...] = (),
    ) -> WholeCall:
        """The call for what is made while the client waits."""
        handler, call = self._handler, self._call
        return WholeCall(
            facts=call.facts(),
            model=call.model,
            cap_nano_usd=handler.principal.spend_cap_nano_usd,
            bill=bill,
            cheaper=cheaper,
            request=request,
            upstream_key=upstream_key,
            deliver=deliver,
            span=self._span(),
            started=handler.services.clock.monotonic(),
            pins=pins,
            submission=self._submission,
            detail=call.detail,
        )

    def _span(self) -> CallSpan:
        call = self._call
        return begin_span(self._handler, call.model, lambda: {genai.OUTPUT_TYPE: self._output})

    # --- Its run: the call is made, or what it was answered before is sent again ---

    async def run_job(self, call: JobCall, job_submit: JobSubmit) -> None:
        """Begin a job, whether or not the client stays. Raises GatewayError."""
        await self._unattended(lambda writer: job_submit.run(call, writer))

    async def run_whole(self, call: WholeCall, whole_submit: WholeSubmit) -> None:
        """Have it made, as long as the client waits. Raises GatewayError."""
        await guarded(self._call, self._submission, lambda writer: whole_submit.run(call, writer))

    async def run_whole_unattended(self, call: WholeCall, whole_submit: WholeSubmit) -> None:
        """Have it made, whether or not the client stays. Raises GatewayError."""
        work = media_of(self._handler).unattended
        await self._unattended(lambda writer: whole_submit.run_unattended(call, writer, work))

    async def _unattended(self, use_case: Callable[[UnattendedWriter], Awaitable[None]]) -> None:
        await unattended(self._call, self._submission, use_case)
