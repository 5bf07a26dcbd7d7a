"""A call that begins a job, as the use-case sees it, and its bill: nothing, until the job ends.

What the job costs is settled when it ends (`actors/jobs/settlement.py`), at the price that is
fixed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.live import Delivered
from actors.wallet.jobs import NewJob
from actors.wallet.messages import CallFacts
from channels.media.requests import Submission as MediaSubmission
from channels.registry import ModelSpec
from gw.calls.bill import Charged
from gw.calls.request import LargeSubmission
from gw.idempotency.submission import Submission
from metrics.spans import Attributes, CallSpan

NOTHING = Charged(cost_nano_usd=0)


@dataclass(frozen=True, slots=True)
class Pin:
    """The one channel that knows what the request names; `param` is the field that names it."""

    channel_id: str
    param: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """A call that has passed every check except money and channels.

    `facts` has the job's id. `hold_nano_usd` is what the job may cost, `cheaper` tells a client
    that is refused for its balance what would cost less. `response_body` is sent once an upstream
    has taken the job: it says nothing that is not known before. `pins` are what its request names
    of a channel's own; `large` is the client's body where `request` is without it.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    job: NewJob
    hold_nano_usd: int
    cheaper: str
    request: MediaSubmission
    response_body: bytes
    span: CallSpan
    started: float  # monotonic seconds
    pins: tuple[Pin, ...] = ()
    large: LargeSubmission | None = None
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """The job's id."""
        assert self.facts.job_id is not None
        return self.facts.job_id

    @property
    def upstream_key(self) -> str:
        """See `SubmitCall`."""
        return self.job_id


class JobBill:
    """The bill of a submission: until its job ends there is nothing to pay."""

    is_complete = True

    def __init__(self, price: Mapping[str, str]) -> None:
        self._price = price

    def __repr__(self) -> str:
        return f"<JobBill {dict(self._price)}>"

    @property
    def terms(self) -> Mapping[str, Any]:
        return {"price": self._price}

    def delivered(self) -> Delivered | None:
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        return NOTHING

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {}
