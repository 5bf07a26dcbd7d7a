"""A submission of a job: who is asked, what is held, what the client is told, what is left behind.

The table of reference 7.2, row by row.
"""

import asyncio
import json
from typing import Any

import pytest

from actors.clock import SystemClock
from channels.errors import UpstreamCut, UpstreamLost, UpstreamUnreachable
from channels.media.requests import GeneralVideo
from channels.offload.jobs import read_submission
from channels.offload.pool import Helpers, OffloadFull, OffloadPool
from channels.offload.process import Job, JobTooLong
from channels.registry import VideoSpec
from gw.calls.media_calls import Pin
from gw.calls.offloading import LargeSubmission
from gw.media.videos import read_video
from tests.support.aio import eventually
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.unit.calls.submitting import HELD, RESPONSE, TAKEN, SubmittingWriter, portrait, stage
from tests.unit.calls.world import ACCOUNT, FOR_EVER, Head, Script, response_of

DOWN: Script = (UpstreamUnreachable("refused"), Head())
LOST: Script = (UpstreamLost("reset"), Head())
FAILED = response_of(b'{"error": {"message": "overloaded"}}', status=503)


async def test_a_job_is_held_for_and_taken_before_the_client_is_answered() -> None:
    async with stage(a=[TAKEN]) as s:
        result = await s.submit()
        assert result.error is None
        assert result.writer.sent == RESPONSE
        assert s.state(result) == ("queued", ("a", "up_1"))
        assert s.world.ledger.held[ACCOUNT] == HELD
        assert result.row is None  # it has one when it ends
        (requested,) = s.world.http.requests
        assert ("Idempotency-Key", result.call.facts.job_id) in requested.headers
        assert json.loads(bytes(requested.body))["duration"] == 5
        assert s.world.verdict("a") == "success"


UNSENT = {"no connection": DOWN, "5xx": FAILED}


@each("script", UNSENT.values())
async def test_what_no_upstream_has_taken_goes_to_the_next_channel(script: Script) -> None:
    async with stage(a=[script], b=[TAKEN]) as s:
        result = await s.submit()
        assert result.error is None
        assert s.state(result) == ("queued", ("b", "up_1"))
        assert s.world.http.tried == ["a", "b"]


async def test_three_channels_are_tried_at_most() -> None:
    async with stage(a=[FAILED], b=[DOWN], c=[FAILED], d=[TAKEN]) as s:
        result = await s.submit()
        assert (result.refusal.http_status, result.refusal.kind.code) == (503, "upstream_error")
        assert result.status == ("error", "upstream_error")
        assert result.attempts == ["upstream_503", "upstream_unreachable", "upstream_503"]
        assert s.world.http.tried == ["a", "b", "c"]
        assert s.state(result) == ("failed", None)
        assert s.unknown("c") == 0


UNKNOWN: dict[str, tuple[Script, int, str]] = {
    "lost after it was sent": (LOST, 502, "upstream_unreachable"),
    "cut": (response_of(b'{"id"', UpstreamCut("reset")), 502, "upstream_unreachable"),
    "504": (response_of(b"", status=504), 504, "upstream_timeout"),
    "not JSON": (response_of(b"<html>"), 502, "upstream_error"),
    "no id": (response_of(b'{"status": "queued"}'), 502, "upstream_error"),
    "204": (response_of(status=204), 502, "upstream_error"),
}


@logs("answer_unusable", "task_submit_unknown")
@pytest.mark.parametrize(("script", "status", "code"), UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_what_an_upstream_may_have_taken_is_refunded_and_never_sent_again(
    script: Script, status: int, code: str
) -> None:
    async with stage(a=[script], b=[TAKEN]) as s:
        result = await s.submit()
        assert (result.refusal.http_status, result.refusal.kind.code) == (status, code)
        assert result.status == ("interrupted", code)
        assert result.cost == 0
        assert s.world.http.tried == ["a"]
        assert s.world.ledger.held[ACCOUNT] == 0
        assert s.unknown("a") == 1
        assert s.state(result) == ("failed", None)


@logs("answer_unusable", "task_submit_unknown")
async def test_an_upstream_that_does_not_answer_in_time_is_an_unknown_outcome() -> None:
    async with stage(seconds=0.01, a=[(FOR_EVER, Head())], b=[TAKEN]) as s:
        result = await s.submit()
        assert (result.refusal.http_status, result.refusal.kind.code) == (504, "upstream_timeout")
        assert result.status == ("interrupted", "upstream_timeout")
        assert s.world.http.tried == ["a"]
        assert s.unknown("a") == 1


async def test_a_refusal_is_passed_through_with_its_words() -> None:
    refused = response_of(b'{"error": {"code": "x", "message": "no such style"}}', status=422)
    async with stage(a=[refused], b=[TAKEN]) as s:
        result = await s.submit()
        assert (result.refusal.http_status, result.refusal.kind.code) == (422, "invalid_request")
        assert result.refusal.message == "no such style"
        assert result.status == ("error", "invalid_request")
        assert s.world.verdict("a") == "success"
        assert s.state(result) == ("failed", None)


async def test_a_portrait_that_is_refused_is_the_clients_and_its_row_says_rejected() -> None:
    moderated = response_of(b'{"error": "a minor"}', status=451)
    async with stage(a=[moderated]) as s:
        result = await s.submit(request=portrait())
        assert (result.refusal.http_status, result.refusal.message) == (400, "a minor")
        assert result.status == ("rejected", "invalid_request")


async def test_portraits_are_registered_on_the_channel_that_makes_the_film() -> None:
    registered = response_of(b'{"id": "asset_7"}')
    async with stage(a=[registered, FAILED], b=[registered, TAKEN]) as s:
        result = await s.submit(request=portrait(portrait_auth=True))
        assert result.error is None
        assert s.world.http.tried == ["a", "a", "b", "b"]
        asset, made = (json.loads(bytes(r.body)) for r in s.world.http.requests[2:])
        assert (asset["type"], asset["portrait_auth"]) == ("image", True)
        assert made["content"][1]["image_url"]["url"] == "asset://asset_7"


@logs("answer_unusable", "task_submit_unknown")
async def test_an_asset_whose_registration_is_unknown_ends_the_submission() -> None:
    async with stage(a=[LOST], b=[TAKEN]) as s:
        result = await s.submit(request=portrait())
        assert result.status == ("interrupted", "upstream_unreachable")
        assert s.world.http.tried == ["a"]


async def test_nothing_is_requested_that_the_balance_does_not_cover() -> None:
    async with stage(balance=HELD - 1, a=[TAKEN]) as s:
        result = await s.submit()
        assert result.refusal.kind.code == "quota_exceeded"
        assert s.world.http.tried == []


async def test_what_a_request_names_pins_it_to_a_channel() -> None:
    async with stage(a=[TAKEN], b=[TAKEN]) as s:
        result = await s.submit(pins=[Pin("b", "avatar")])
        assert s.state(result) == ("queued", ("b", "up_1"))
        elsewhere = await s.submit(pins=[Pin("b", "avatar"), Pin("a", "voice")])
        assert (elsewhere.refusal.http_status, elsewhere.refusal.kind.code) == (
            400,
            "invalid_request",
        )
        assert elsewhere.refusal.param == "voice"
        assert s.world.http.tried == ["b"]


async def test_the_answer_is_kept_with_the_acceptance_and_replayed_while_the_job_runs() -> None:
    async with stage(a=[TAKEN]) as s:
        await s.submit(key="k")
        kept = s.world.ledger.claims.rows[(ACCOUNT, "k")]
        assert kept.state == "stored"
        assert len(s.world.http.requests) == 1


@logs("answer_unusable", "task_submit_unknown", required=False)
@pytest.mark.parametrize("script", [FAILED, LOST], ids=["failed", "unknown"])
async def test_a_submission_that_fails_frees_its_key(script: Script) -> None:
    async with stage(a=[script]) as s:
        await s.submit(key="k")
        assert (ACCOUNT, "k") not in s.world.ledger.claims.rows


async def test_a_client_that_leaves_does_not_stop_its_submission() -> None:
    gate = asyncio.Event()
    async with stage(a=[(gate, *TAKEN)]) as s:
        call, writer = s.prepare(key="k"), SubmittingWriter()
        s.begin(call, writer)
        await eventually(lambda: s.world.http.opening == 1)
        writer.leave()
        await s.world.end(call, writer)
        assert writer.is_left_alone
        assert len(s.in_flight) == 1  # a process that is stopped waits for it
        gate.set()
        await eventually(lambda: writer.ends_alone == [None])
        assert s.state(call) == ("queued", ("a", "up_1"))
        assert s.world.ledger.claims.rows[(ACCOUNT, "k")].state == "stored"
        assert not len(s.in_flight)
        assert writer.sent == b""


async def test_a_submission_that_fails_alone_is_refunded_and_says_so() -> None:
    gate = asyncio.Event()
    async with stage(a=[(gate, *FAILED)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        s.begin(call, writer)
        await eventually(lambda: s.world.http.opening == 1)
        writer.leave()
        await s.world.end(call, writer)
        gate.set()
        await eventually(lambda: len(writer.ends_alone) == 1)
        await s.world.settled()
        assert s.world.ledger.rows[call.facts.call_id]["status"] == "error"


@logs("task_submit_unknown")
@pytest.mark.parametrize("leaves", [True, False], ids=["left alone", "attended"])
async def test_a_submission_that_is_cut_is_refunded_as_unknown(leaves: bool) -> None:
    async with stage(a=[(FOR_EVER, Head())], b=[TAKEN]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        s.begin(call, writer)
        await eventually(lambda: s.world.http.opening == 1)
        if leaves:
            writer.leave()
            await s.world.end(call, writer)
            await s.in_flight.drain(seconds=0, clock=SystemClock())
        else:
            writer.cut()
        result = await s.world.end(call, writer)
        assert result.status == ("interrupted", "gateway_stopping")
        assert s.unknown("a") == 1
        assert s.world.http.tried == ["a"]


@logs("task_submit_unknown", "recovery_corrected")
async def test_a_job_that_recovery_took_for_dead_is_given_up_at_its_upstream() -> None:
    gate = asyncio.Event()
    async with stage(a=[(gate, *TAKEN)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        s.begin(call, writer)
        await eventually(lambda: s.world.http.opening == 1)
        s.take_for_dead(call)
        await s.world.settled()
        gate.set()
        result = await s.world.end(call, writer)
        assert (result.refusal.http_status, result.refusal.kind.code) == (502, "upstream_error")
        assert [place.upstream_id for place in s.cancelled] == ["up_1"]
        assert result.status == ("interrupted", "upstream_error")
        assert s.state(call)[0] == "failed"
        assert s.unknown("a") == 1


@logs("task_not_stored")
async def test_a_database_that_is_away_keeps_the_answer_waiting_and_the_job() -> None:
    gate = asyncio.Event()
    async with stage(a=[(gate, *TAKEN)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        s.begin(call, writer)
        await eventually(lambda: s.world.http.opening == 1)
        s.database.away = 2
        gate.set()
        for _ in range(2):
            await eventually(lambda: s.world.clock.sleepers > 0)
            s.world.clock.advance(1.0)
        result = await s.world.end(call, writer)
        assert result.writer.sent == RESPONSE
        assert s.state(result) == ("queued", ("a", "up_1"))


class FakeHelpers(Helpers):
    """Does jobs here and at once, or raises why they cannot be done."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__(OffloadPool(), ACCOUNT)
        self._fault = fault

    async def run(self, job: Job, body: bytes, *arguments: Any) -> tuple[Any, bytes | None]:
        if self._fault is not None:
            raise self._fault
        return job(body, *arguments)


def large(fault: Exception | None = None) -> tuple[GeneralVideo, LargeSubmission]:
    link = "data:image/png;base64," + "A" * 100_000
    image = {"type": "image_url", "image_url": {"url": link}}
    text = {"type": "text", "text": "a boat"}
    body = json.dumps({"model": "m", "content": [text, image]}).encode()
    arguments = ("film", VideoSpec())
    read, _ = read_submission(body, read_video, *arguments)
    request = read.made
    assert isinstance(request, GeneralVideo)
    return request, LargeSubmission(body, lambda: FakeHelpers(fault), read_video, arguments)


async def test_a_large_body_is_written_for_the_channel_that_is_tried() -> None:
    request, body = large()
    async with stage(a=[DOWN], b=[TAKEN]) as s:
        result = await s.submit(request=request, large=body)
        assert result.error is None
        requested = s.world.http.requests[-1]
        sent = json.loads(bytes(requested.body))
        assert len(sent["content"][1]["image_url"]["url"]) > 100_000
        assert sent["content"][0]["text"] == "a boat"
        assert ("Idempotency-Key", result.call.facts.job_id) in requested.headers


@cases("fault, code", (OffloadFull(), "no_channel_available"), (JobTooLong(), "invalid_request"))
async def test_a_large_body_that_is_not_written_costs_nothing_and_is_sent_to_nobody(
    fault: Exception, code: str
) -> None:
    request, body = large(fault)
    async with stage(a=[TAKEN]) as s:
        result = await s.submit(request=request, large=body)
        assert result.refusal.kind.code == code
        assert s.world.http.requests == []
        assert s.world.ledger.held[ACCOUNT] == 0
        assert s.unknown("a") == 0
