"""What is sold by the piece is made once: no second channel after an answer has begun."""

from __future__ import annotations

from typing import Any

import pytest

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from tests.support.rows import cases
from tests.unit.calls.world import Script, answer
from tests.unit.images.stage import EACH, generate, made, stage

PAGE = b"<html><title>Welcome to nginx</title></html>"
# What an upstream does that may have made the images -> the failed attempt's code.
BEGUN: dict[str, tuple[Script, str]] = {
    "lost within the head": ((UpstreamCut(),), "upstream_cut"),
    "no HTTP, or compressed": ((UpstreamMalformed(),), "upstream_malformed"),
    "nothing": (answer(), "upstream_malformed"),
    "a web page": (answer(PAGE), "upstream_malformed"),
    "broken JSON": (answer(b'{"data": [{"url": "https://pic'), "upstream_malformed"),
    "no data": (answer(b'{"created": 1}'), "upstream_malformed"),
    "data of another form": (answer(b'{"data": {"url": "x"}}'), "upstream_malformed"),
    "lost within the body": (answer(made(1)[:30], UpstreamCut()), "upstream_cut"),
    "broken on its way": (answer(made(1)[:30], UpstreamMalformed()), "upstream_malformed"),
    "a body without an end": (answer(made(1, x="x" * 1_000_000)), "upstream_malformed"),
    "204": (answer(status=204), "upstream_204"),
    "302": (answer(PAGE, status=302, location="https://elsewhere.example/"), "upstream_302"),
    "308": (answer(status=308, location="https://elsewhere.example/"), "upstream_308"),
}


@pytest.mark.parametrize(("script", "code"), BEGUN.values(), ids=BEGUN.keys())
async def test_answer_that_cannot_be_used_is_an_error_for_nothing_and_nobody_else_is_asked(
    script: Script, code: str, log_watch: Any
) -> None:
    log_watch.expect("answer_unusable")

    async with stage(a=[script], b=[answer(made(1))]) as w:
        told = await generate(w)
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (502, "upstream_error")
        assert told.error.headers == {}
        assert (told.status, told.cost) == (("error", "upstream_error"), 0)
        assert (w.wire.tried, told.attempts) == (["a"], [code])
        assert w.verdict("a") == "failure"


@cases(
    "script",
    (UpstreamUnreachable(),),
    answer(status=500),
    answer(PAGE, UpstreamCut(), status=502),
    answer(b"{}", status=529),
)
async def test_upstream_that_says_it_made_nothing_is_followed_by_the_next(script: Script) -> None:
    async with stage(a=[script], b=[answer(made(1))]) as w:
        told = await generate(w)
        assert (told.status, told.cost) == (("success", None), EACH)
        assert w.wire.tried == ["a", "b"]
