"""Images that are generated, once for each key, over any upstream."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.json.lenient import BYTE_ORDER_MARK
from tests.support.aio import eventually, jump, run
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.calls.world import (
    ACCOUNT,
    ATTEMPT_SECONDS,
    FOR_EVER,
    TOTAL_SECONDS,
    RecordingWriter,
    Script,
    response_of,
)
from tests.unit.images.stage import AREA, EACH, generate, made, prepare, stage


@pytest.fixture(autouse=True)
def key_refusals(expect_log: Callable[..., None]) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


ODD_ERROR = b'{"error":{"message":"no such size", "code": "Bad.Size"}, "request_id" : "r-1"}'


async def test_images_that_came_are_charged_and_the_body_goes_out_as_it_is() -> None:
    body = b' {"data" : [{"url":"https://p.example/1?Expires=1"},{"b64_json":"aGk="}],"x":1}\n'
    # But for a byte order mark: some servers begin every text with one, clients read none.
    async with stage(a=[response_of(BYTE_ORDER_MARK + body)]) as w:
        result = await generate(w, n=2)
        assert (result.writer.sent, result.writer.http_status) == (body, 200)
        assert result.writer.content_type == "application/json"
        assert (result.status, result.cost) == (("success", None), 2 * EACH)
        row = result.logged
        assert (row["unit_count"], row["unit_type"]) == (2, "image")
        assert row["result_urls"] == ["https://p.example/1?Expires=1"]
        assert row["result_expires_at"] is not None
        assert w.ledger.balances[ACCOUNT] == 10**9 - 2 * EACH


@cases("count", 1, 10)
async def test_hold_is_the_price_of_all_that_is_requested(count: int) -> None:
    async with stage(a=[response_of(made(count))], balance=count * EACH) as w:
        assert (await generate(w, n=count)).cost == count * EACH
    async with stage(a=[response_of(made(count))], balance=count * EACH - 1) as w:
        result = await generate(w, n=count)
        assert (result.refusal.http_status, result.refusal.kind.code) == (402, "quota_exceeded")
        assert "fewer images" in result.refusal.message
        assert (w.http.tried, w.ledger.balances[ACCOUNT]) == ([], count * EACH - 1)


@logs("usage_doubted")
@cases(
    "requested, paid",
    ({"n": 2}, 2),
    ({"n": 2, "num_images": 3}, 3),
    ({"sequential_image_generation": "auto"}, 15),
)
async def test_images_that_nobody_requested_cost_nothing_and_raise_an_alarm(
    requested: dict[str, Any], paid: int
) -> None:
    body = made(40)
    async with stage(a=[response_of(body)]) as w:
        result = await generate(w, **requested)
        assert (result.writer.sent, result.cost) == (body, paid * EACH)
        row = result.logged
        assert (row["unit_count"], len(row["result_urls"])) == (paid, paid)
        assert row["detail"]["doubted"] == {"images": 40}
        assert row["detail"]["hold"] == paid * EACH
        alarm = 'gw_usage_doubted_total{channel="a",what="images"} 1.0'
        assert alarm in w.metrics.render("")[0].decode()


@cases(
    "requested, sizes, cost",
    ({"size": "1536x1536"}, ["1536x1536"], 40),
    ({"size": "1537x1537"}, ["1537x1537"], 80),
    ({}, ["1024x1024"], 80),  # spec: no size is the higher tier, whatever comes
    ({"size": "1024x1024"}, ["4096x4096"], 80),
    ({"size": "1024x1024"}, ["auto"], 40),
    ({"size": "1024x1024", "n": 2}, ["1024x1024", "2048x2048"], 120),
    ({"size": "1024x1024", "image": ["https://a.example/1"] * 3}, ["1024x1024"], 55),
    ({"size": "1024x1024", "image": ["https://a.example/1"] * 3}, [], 0),
    ({"size": "4096x4096", "n": 2, "image": ["https://a.example/1"]}, ["4096x4096"] * 2, 165),
)
async def test_area_and_references_are_priced(
    requested: dict[str, Any], sizes: list[str], cost: int
) -> None:
    data = [{"url": "https://p.example/1", "size": size} for size in sizes]
    async with stage(price=AREA, a=[response_of(json.dumps({"data": data}).encode())]) as w:
        assert (await generate(w, **requested)).cost == cost * 1_000_000
    async with stage(
        price=AREA, multiplier="0.3", a=[response_of(json.dumps({"data": data}).encode())]
    ) as w:
        assert (await generate(w, **requested)).cost == cost * 300_000


@cases("status", 400, 401, 403, 404, 409, 422, 429)
async def test_refusal_goes_out_unchanged_and_costs_nothing(status: int) -> None:
    scripts = [response_of(ODD_ERROR, status=status, content_type="application/problem+json")]
    async with stage(a=scripts, b=[response_of(made(1))]) as w:
        result = await generate(w)
        assert (result.writer.http_status, result.writer.sent) == (status, ODD_ERROR)
        assert result.writer.content_type == "application/problem+json"
        assert (result.row is not None and result.status[0], result.cost) == ("error", 0)
        assert result.logged["error_message"] == "no such size"
        assert result.logged["unit_count"] == 0
        assert (w.http.tried, w.verdict("a")) == (["a"], "success")


async def test_retry_after_of_a_refusal_is_passed_on() -> None:
    async with stage(a=[response_of(ODD_ERROR, status=429, retry_after="7")]) as w:
        assert (await generate(w)).writer.headers == {"Retry-After": "7"}


@cases("body", b"", b" \n", b"x" * 2_000_000)
async def test_error_without_a_body_to_pass_on_gets_ours(body: bytes) -> None:
    async with stage(a=[response_of(body, status=400)]) as w:
        result = await generate(w)
        assert (result.refusal.http_status, result.refusal.kind.code) == (400, "invalid_request")


async def test_error_that_is_compressed_gets_ours() -> None:
    packed = response_of(b"\x1f\x8b\x08\x00", status=422, content_encoding="gzip")
    async with stage(a=[packed]) as w:
        result = await generate(w)
        assert (result.refusal.http_status, result.writer.blocks) == (422, [])


async def test_key_and_host_of_the_channel_never_leave_with_an_error() -> None:
    body = b'{"error":{"message":"key api-key-of-a is no good at http://a.example/v1"}}'
    async with stage(a=[response_of(body, status=401)]) as w:
        result = await generate(w)
        assert result.writer.sent == (
            b'{"error":{"message":"key [redacted] is no good at http://[host]/v1"}}'
        )
        assert "a.example" not in result.logged["error_message"]


async def test_answer_that_says_it_failed_is_an_error_unbilled_and_not_tried_elsewhere() -> None:
    body = b'{"error": {"message": "content policy"}}'
    async with stage(a=[response_of(body)], b=[response_of(made(1))]) as w:
        result = await generate(w)
        assert (result.refusal.http_status, result.refusal.message) == (502, "content policy")
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)
        assert result.logged["error_message"] == "content policy"
        assert (w.http.tried, w.verdict("a")) == (["a"], "success")


@logs("answer_unusable")
async def test_answer_beyond_the_bound_is_not_read_to_its_end() -> None:
    async with stage(a=[response_of(made(1, padding="x" * 1_000_000))]) as w:
        result = await generate(w)
        assert result.refusal.http_status == 502


@cases("where", (FOR_EVER,), response_of(b'{"data"', FOR_EVER))
async def test_attempt_that_takes_too_long_is_504_and_no_retry(where: Script) -> None:
    async with stage(a=[where], b=[response_of(made(1))]) as w:
        call, writer = prepare(w), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: w.http.tried == ["a"])
        jump(ATTEMPT_SECONDS + 1)
        result = await w.end(call, writer)
        assert (result.refusal.http_status, result.refusal.kind.code) == (504, "upstream_timeout")
        assert (result.status, result.cost) == (("interrupted", "upstream_timeout"), 0)
        assert w.http.tried == ["a"]


async def test_time_of_one_attempt_is_not_that_of_the_next() -> None:
    """Two attempts, together longer than one may take."""

    refuses, responses = asyncio.Event(), asyncio.Event()
    refused: Script = (refuses, UpstreamUnreachable())
    async with stage(a=[refused], b=[(responses, *response_of(made(1)))]) as w:
        call, writer = prepare(w), RecordingWriter()
        w.begin(call, writer)
        half = (ATTEMPT_SECONDS + TOTAL_SECONDS) / 4
        await eventually(lambda: w.http.tried == ["a"])
        jump(half)
        refuses.set()
        await eventually(lambda: w.http.tried == ["a", "b"])
        jump(half)
        for _ in range(3):
            await asyncio.sleep(0)  # a time-out that is due would come now
        responses.set()
        result = await w.end(call, writer)
        assert (result.error, result.cost) == (None, EACH)


async def test_all_attempts_together_have_their_own_bound() -> None:
    gate = asyncio.Event()
    refused: Script = (gate, UpstreamUnreachable())
    async with stage(a=[refused], b=[(FOR_EVER,)], c=[response_of(made(1))]) as w:
        call, writer = prepare(w), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: w.http.tried == ["a"])
        jump(ATTEMPT_SECONDS - 1)
        gate.set()
        await eventually(lambda: w.http.tried == ["a", "b"])
        jump(TOTAL_SECONDS - ATTEMPT_SECONDS + 2)
        result = await w.end(call, writer)
        assert result.refusal.http_status == 504


@cases("where", (FOR_EVER,), response_of(made(1)[:20], FOR_EVER))
async def test_client_that_leaves_pays_nothing_and_the_upstream_is_let_go_at_once(
    where: Script,
) -> None:
    async with stage(a=[where]) as w:
        call, writer = prepare(w), RecordingWriter()
        w.begin(call, writer)
        await eventually(lambda: bool(w.http.opening or w.http.responses))
        writer.leave()
        result = await w.end(call, writer)
        assert (result.status, result.cost) == (("interrupted", "client_disconnected"), 0)
        assert (result.logged["unit_count"], result.logged["unit_type"]) == (0, "image")
        assert w.ledger.balances[ACCOUNT] == 10**9


async def test_row_keeps_the_price_and_the_pieces() -> None:
    body = json.dumps({"data": [{"url": "https://p.example/1"}], "model": "v/p"}).encode()
    async with stage(price=AREA, multiplier="0.6", a=[response_of(body)]) as w:
        detail = (await generate(w, image=["https://a.example/1"])).logged["detail"]
        assert detail["price"] == {
            "per_image": "0.04",
            "per_image_large": "0.08",
            "area_threshold_mp": "2.36",
            "per_reference": "0.005",
            "multiplier": "0.6",
        }
        assert detail["units"] == {"large": 1, "references": 1}
        assert detail["hold"] == 51_000_000
        assert detail["order"] == [["a", "images"]]
        assert detail["upstream"]["model"] == "v/p"


async def test_request_on_the_wire_has_the_channels_key_and_nothing_of_the_clients() -> None:
    async with stage(a=[response_of(made(1))]) as w:
        await generate(w)
        (request,) = w.http.requests
        assert request.url == "http://a.example/v1/images/generations"
        assert dict(request.headers) == {
            "Authorization": "Bearer api-key-of-a",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }


PAGE = b"<html><title>Welcome to nginx</title></html>"
# What an upstream does that may have made the images -> the failed attempt's code.
BEGUN: dict[str, tuple[Script, str]] = {
    "lost within the head": ((UpstreamCut(),), "upstream_cut"),
    "no HTTP, or compressed": ((UpstreamMalformed(),), "upstream_malformed"),
    "nothing": (response_of(), "upstream_malformed"),
    "a web page": (response_of(PAGE), "upstream_malformed"),
    "broken JSON": (response_of(b'{"data": [{"url": "https://pic'), "upstream_malformed"),
    "no data": (response_of(b'{"created": 1}'), "upstream_malformed"),
    "data of another form": (response_of(b'{"data": {"url": "x"}}'), "upstream_malformed"),
    "lost within the body": (response_of(made(1)[:30], UpstreamCut()), "upstream_cut"),
    "broken on its way": (response_of(made(1)[:30], UpstreamMalformed()), "upstream_malformed"),
    "a body without an end": (response_of(made(1, x="x" * 1_000_000)), "upstream_malformed"),
    "204": (response_of(status=204), "upstream_204"),
    "302": (response_of(PAGE, status=302, location="https://elsewhere.example/"), "upstream_302"),
    "308": (response_of(status=308, location="https://elsewhere.example/"), "upstream_308"),
}


@pytest.mark.parametrize(("script", "code"), BEGUN.values(), ids=BEGUN.keys())
async def test_answer_that_cannot_be_used_is_an_error_for_nothing_and_no_other_channel_is_tried(
    script: Script, code: str, log_watch: Any
) -> None:
    log_watch.expect("answer_unusable")

    async with stage(a=[script], b=[response_of(made(1))]) as w:
        result = await generate(w)
        assert (result.refusal.http_status, result.refusal.kind.code) == (502, "upstream_error")
        assert result.refusal.headers == {}
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)
        assert (w.http.tried, result.attempts) == (["a"], [code])
        assert w.verdict("a") == "failure"


CHANNELS = "abcd"


@dataclass(frozen=True)
class Fate:
    """What one upstream does; `images` or `http_status` where that ends the call."""

    script: Script
    images: int | None = None
    http_status: int = 0
    body: bytes = b""
    has_begun: bool = False  # an answer, of which nobody knows what it stands for

    @property
    def ends_the_call(self) -> bool:
        return self.images is not None or 400 <= self.http_status < 500 or self.has_begun


def images(count: int) -> Fate:
    body = made(count)
    return Fate(response_of(body), images=count, http_status=200, body=body)


def refused(status: int) -> Fate:
    body = b'{"error": {"message": "status %d"}}' % status
    return Fate(response_of(body, status=status), http_status=status, body=body)


FATES = st.one_of(
    st.integers(0, 12).map(images),
    st.sampled_from([400, 401, 404, 422, 429, 500, 502, 503, 529]).map(refused),
    st.sampled_from(
        [
            Fate((UpstreamUnreachable(),)),
            Fate((UpstreamCut(),), has_begun=True),
            Fate((UpstreamMalformed(),), has_begun=True),
            Fate(response_of(b"<html>"), has_begun=True),
            Fate(response_of(b'{"data": {}}'), has_begun=True),
            Fate(response_of(b'{"data": [', UpstreamCut()), has_begun=True),
            Fate(response_of(b"", status=307), has_begun=True),
            Fate(response_of(b"", status=204), has_begun=True),
        ]
    ),
)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    fates=st.lists(FATES, min_size=1, max_size=4),
    requested=st.integers(1, 10),
    price_of=st.integers(0, 9),
)
def test_client_gets_the_first_answer_and_pays_for_its_images(
    expect_log: Any, fates: list[Fate], requested: int, price_of: int
) -> None:
    for name in ("answer_unusable", "usage_doubted"):
        expect_log(name, required=False)

    async def main() -> None:
        scripts = {name: [fate.script] for name, fate in zip(CHANNELS, fates, strict=False)}
        balance = price_of * EACH or 1
        async with stage(scripts, balance=balance) as w:
            result = await generate(w, n=requested)
            if requested > price_of:
                assert result.refusal.http_status == 402
                assert (w.http.tried, w.ledger.balances[ACCOUNT]) == ([], balance)
                return
            tried = fates[:3]
            for place, fate in enumerate(tried, start=1):
                if fate.ends_the_call:
                    tried = fates[:place]
                    break
            last = tried[-1]
            assert len(w.http.tried) == len(tried)
            charged = min(last.images or 0, requested)
            assert result.cost == charged * EACH
            assert w.ledger.balances[ACCOUNT] == balance - result.cost
            if last.http_status:
                assert (result.writer.http_status, result.writer.sent) == (
                    last.http_status,
                    last.body,
                )
            else:
                assert (result.refusal.http_status, result.writer.blocks) == (502, [])
            assert result.status[0] == ("success" if last.images is not None else "error")
            assert (result.logged["unit_count"], result.logged["unit_type"]) == (
                charged,
                "image",
            )

    run(main())
