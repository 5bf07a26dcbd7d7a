"""What the endpoints share that ask a media upstream for something: the body, the model, the call.

What a body may say are the tables of `gw/media`; a use-case of `gw/calls` runs the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

from msgspec.structs import replace

from actors.wallet.jobs import NewJob
from actors.wallet.unit_pricing import MediaPrice
from channels.errors import InvalidRequest
from channels.media.requests import Submission as MediaSubmission
from channels.offload.weight import READ_VALUES_MAX
from channels.registry import ModelSpec
from gw.api.base import ApiHandler
from gw.api.media_services import MediaServices
from gw.api.submit import JobSubmitHandler
from gw.calls.job import JobCall, Pin
from gw.calls.models import require_served
from gw.content_links import BASE_URL
from gw.errors.render import dumps
from gw.idempotency.submission import Submission
from gw.media import parameters_of
from metrics import genai
from metrics.tracing import CallSpan

S = TypeVar("S", bound=MediaSubmission)


@dataclass(frozen=True, slots=True)
class ReadSubmission(Generic[S]):
    """A checked request with the model that it is for and what the call log shows of it."""

    request: S
    model: str

    @property
    def parameters(self) -> Mapping[str, str]:
        return parameters_of(self.request)


def media_of(handler: ApiHandler) -> MediaServices:
    """What media endpoints use."""
    return cast(MediaServices, handler.settings["media"])


class MediaSubmitHandler(JobSubmitHandler):
    """One submission to a media endpoint."""

    output: ClassVar[str] = ""  # what is made, in the words of a span

    async def submission(self) -> Submission | None:
        """See `SubmitHandler`; a heavy body is told from others before anything reads it."""
        self.is_light()
        return await super().submission()

    def read_media(self, reading: Callable[[], S], *, model: Callable[[S], str]) -> S:
        """Read the request, its model and whether the key may use it. Raises GatewayError."""

        def read() -> ReadSubmission[S]:
            if self.is_heavy:  # none that means something has a hundredth of these
                raise InvalidRequest(f"The body has more than {READ_VALUES_MAX} values.")
            request = reading()
            return ReadSubmission(request, model(request))

        request = self.read(read).request
        require_served(self._model, self.protocol)
        return request

    @property
    def media(self) -> MediaServices:
        """What media endpoints use."""
        return media_of(self)

    @property
    def model(self) -> ModelSpec:
        """The model of the request that was read."""
        return self._model

    def price(self) -> MediaPrice:
        """What the model costs."""
        return MediaPrice.of(self._model)

    def job_call(
        self,
        request: MediaSubmission,
        *,
        job_id: str,
        job: NewJob,
        hold_nano_usd: int,
        cheaper: str,
        status: str,
        span: str,
        submission: Submission | None,
        pins: tuple[Pin, ...] = (),
        response_body: bytes | None = None,
    ) -> JobCall:
        """The call that begins a job; its response says `status`, unless a body is given."""
        begun = {
            "id": job_id,
            "status": status,
            "model": self._model.id,
            "created_at": int(self.request.submitted_at),
        }
        return JobCall(
            facts=replace(self.facts(), job_id=job_id),
            model=self._model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            job=replace(job, request={**job.request, BASE_URL: self.base_url()}),
            hold_nano_usd=hold_nano_usd,
            cheaper=cheaper,
            request=request,
            response_body=dumps(begun) if response_body is None else response_body,
            span=self.span(span),
            started=self.services.clock.monotonic(),
            pins=pins,
            submission=submission,
            detail=self._detail,
        )

    def span(self, name: str) -> CallSpan:
        """The span of the call."""
        model = self._model
        return self.services.tracing.start_call(
            name=name,
            traceparent=self.request.headers.get("traceparent"),
            attributes=lambda: {
                genai.OPERATION_NAME: "generate_content",
                genai.OUTPUT_TYPE: self.output,
                genai.PROVIDER_NAME: model.owned_by,
                genai.REQUEST_MODEL: model.id,
                "gw.protocol": self.protocol,
                "gw.call": self.call_id.hex,
                "gw.account": self.principal.account_id,
            },
        )
