"""A submission to an endpoint that uses a media upstream: the body, the model, the call.

The tables of `gw/media` validate bodies; a use-case of `gw/calls` runs the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, TypeVarTuple

from msgspec.structs import replace

from actors.wallet.messages import NewJob
from actors.wallet.piece_prices import MediaPrice
from channels.conversation import members_in
from channels.errors import InvalidRequest
from channels.media.requests import GeneralVideo, Submission
from channels.offload.jobs import read_submission
from channels.registry import ModelSpec
from gw.api.call_spans import begin_span
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler, detached, guarded
from gw.api.model_call import ModelCall
from gw.api.services import MediaServices
from gw.api.task_shapes import BegunTask
from gw.api.videos.content_links import BASE_URL
from gw.calls import media_calls
from gw.calls.bills import Bill, JobBill
from gw.calls.media import Media
from gw.calls.offloading import LargeSubmission
from gw.error_bodies import dumps
from gw.errors import invalid_request
from gw.media.logged_parameters import parameters_of
from metrics import genai
from metrics.spans import CallSpan

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

    # --- The request ---

    async def read_submission(
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
                made = reading(handler.request.body, *arguments)
                call.attribute(members_in(handler.request.body))
                return made
            found, _ = await call.offload(read_submission, reading, *arguments)
            call.attribute(found.members)
            read: A = found.made
            if isinstance(read, GeneralVideo) and read.may_be_long:
                self._large = LargeSubmission(
                    handler.request.body, call.helpers, reading, arguments
                )
            return read
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
        """The model of the request, after `read_submission` or `find_model`."""
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
        pins: tuple[media_calls.Pin, ...] = (),
        response_body: bytes | None = None,
    ) -> media_calls.SubmitCall:
        """Return the call that begins a job; it responds with `status`, or with `response_body`."""
        handler = self._handler
        begun: BegunTask = {
            "id": job_id,
            "status": status,
            "model": self.model.id,
            "created_at": int(handler.request.submitted_at),
        }
        delivery = media_calls.Delivery(
            media_calls.JSON, dumps(begun) if response_body is None else response_body
        )

        async def deliver(result: media_calls.SubmitResult) -> media_calls.Delivery:
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
        deliver: Callable[[media_calls.SubmitResult], Awaitable[media_calls.Delivery]],
        made_id: str | None = None,
        job_id: str | None = None,
        job: NewJob | None = None,
        pins: tuple[media_calls.Pin, ...] = (),
    ) -> media_calls.SubmitCall:
        """Return the call; `made_id` and `job_id` are as in `CallFacts`."""
        handler, call = self._handler, self._call
        return media_calls.SubmitCall(
            facts=replace(call.facts(), made_id=made_id, job_id=job_id),
            model=call.model,
            cap_nano_usd=handler.principal.spend_cap_nano_usd,
            spender=call.spender(),
            demand=call.demand,
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

    async def run(self, call: media_calls.SubmitCall, media: Media[media_calls.SubmitCall]) -> None:
        """Run the call while the client is connected. Raises GatewayError."""
        await guarded(self._call, self._idempotency, lambda writer: media.run_call(call, writer))

    async def run_detached(
        self, call: media_calls.SubmitCall, media: Media[media_calls.SubmitCall]
    ) -> None:
        """Run the call even if the client disconnects. Raises GatewayError."""
        await detached(
            self._call, self._idempotency, lambda writer: media.run_detached(call, writer)
        )
