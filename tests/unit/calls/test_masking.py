"""An upstream repeats the channel's key or host: whoever reads the answer does not learn it."""

import json
from collections.abc import Callable
from typing import Any

from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.translation.paths import TRANSLATIONS
from gw.api.chat.gemini import ArrayStream
from gw.calls.stream_events import Framing, SseFraming
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.unit.calls import sse
from tests.unit.calls.relaying import translated, untranslated
from tests.unit.calls.world import Script, response_of, world
from tests.unit.images.stage import generate, stage

KEY, HOST = "api-key-of-a", "a.example"
LEAK = f"Bearer {KEY} at https://{HOST}/v1, and api-key-of-b"
MASKED = "Bearer [redacted] at https://[host]/v1, and [redacted]"

WHOLE: dict[str, Any] = {
    "chat": {"id": "c", "choices": [{"message": {"content": LEAK}, "finish_reason": "stop"}]},
    "messages": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": LEAK}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
    "responses": {
        "id": "r",
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": LEAK}]}],
    },
    "native": {"candidates": [{"content": {"parts": [{"text": LEAK}]}, "finishReason": "STOP"}]},
}
SAYS: dict[str, Callable[[str], bytes]] = {
    "chat": sse.delta,
    "messages": lambda text: sse.event(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    ),
    "responses": lambda text: sse.event({"type": "response.output_text.delta", "delta": text}),
    "native": lambda text: sse.event({"candidates": [{"content": {"parts": [{"text": text}]}}]}),
}
ERRORS: dict[str, bytes] = {
    "chat": sse.error_event(LEAK),
    "messages": b"event: error\n"
    + sse.event({"type": "error", "error": {"type": "api_error", "message": LEAK}}),
    "responses": sse.event({"type": "error", "code": "server_error", "message": LEAK}),
    "native": sse.event({"error": {"code": 500, "message": LEAK, "status": "INTERNAL"}}),
}


def masked(body: bytes) -> bytes:
    return body.replace(json.dumps(LEAK)[1:-1].encode(), MASKED.encode())


async def sent(script: Script, **options: Any) -> bytes:
    """What the client of a call is sent, with another channel that is configured and not asked."""
    async with world(a=[script], b=[script]) as w:
        result = await w.call(**options)
        assert KEY not in str(result.row)
        assert HOST not in str(result.row)
        return result.writer.sent


@each("protocol", WHOLE)
async def test_whole_answer_is_masked_and_otherwise_as_it_came(protocol: str) -> None:
    body = b" " + json.dumps(WHOLE[protocol]).encode() + b"\n"
    assert await sent(response_of(body), plan=untranslated(protocol)) == masked(body)
    spelled = body.replace(b"-", b"\\u002d").replace(b"/", b"\\/")
    got = await sent(response_of(spelled), plan=untranslated(protocol))
    assert MASKED in json.dumps(json.loads(got))


@each("client, upstream", TRANSLATIONS)
async def test_translated_answer_is_masked(client: str, upstream: str) -> None:
    body = json.dumps(WHOLE[upstream]).replace("-", "\\u002d").encode()
    got = await sent(response_of(body), plan=translated(client, upstream))
    assert MASKED in json.dumps(json.loads(got))


@cases("begun", True, False)
@each("protocol", ERRORS)
async def test_error_event_is_masked_and_otherwise_as_it_came(protocol: str, begun: bool) -> None:
    steps = (SAYS[protocol](f"See {HOST}."),) if begun else ()
    script = response_of(*steps, ERRORS[protocol], UpstreamCut())
    got = await sent(script, stream=True, plan=untranslated(protocol))
    assert got == b"".join(steps) + masked(ERRORS[protocol])
    together = response_of(b"".join(steps) + ERRORS[protocol])
    plan = untranslated(protocol)
    assert masked(ERRORS[protocol]) in await sent(together, stream=True, plan=plan)


@cases("is_array", False, True)
@each("client, upstream", TRANSLATIONS)
async def test_error_event_of_a_translated_stream_is_masked(
    client: str, upstream: str, is_array: bool
) -> None:
    framing: Framing = ArrayStream() if is_array else SseFraming()
    script = response_of(SAYS[upstream]("Hello"), ERRORS[upstream])
    got = await sent(script, stream=True, plan=translated(client, upstream), framing=framing)
    assert b"[redacted] at [url]" in got


@each("cut", range(0, 60, 7))
@each("protocol", SAYS)
async def test_key_in_any_event_is_masked_wherever_the_reads_are_cut(
    protocol: str, cut: int
) -> None:
    say = SAYS[protocol]
    events = b"".join(map(say, ("one", "two", "three", f"my {KEY}!", "four")))
    place = events.index(KEY.encode()) - 30 + cut
    script = response_of(say("zero"), events[:place], events[place:])
    got = await sent(script, stream=True, plan=untranslated(protocol))
    assert got == say("zero") + events.replace(KEY.encode(), b"[redacted]")


@cases("stream", False, True)
async def test_names_of_an_answer_are_masked_in_its_row(stream: bool) -> None:
    named = {"id": f"id-{KEY}", "model": f"at {HOST}"}
    message = {"delta": {"content": "Hi"}, "message": {"content": "Hi"}, "finish_reason": KEY}
    value = {**named, "choices": [message]}
    steps = (sse.event(value), sse.DONE) if stream else (json.dumps(value).encode(),)
    async with world(a=[response_of(*steps)]) as w:
        result = await w.call(stream=stream)
        upstream = result.logged["detail"]["upstream"]
        assert upstream["id"] == "id-[redacted]"
        assert (upstream["model"], upstream["finish"]) == ("at [host]", "[redacted]")
        assert KEY not in str(result.row)


async def test_images_are_masked_but_for_the_links_that_were_paid_for() -> None:
    link = f"https://{HOST}/1.png"
    body = json.dumps({"data": [{"url": link, "revised_prompt": LEAK}]}).encode()
    script = response_of(body, content_type=f"text/{KEY}")
    async with stage(a=[script], b=[script]) as w:
        result = await generate(w)
        assert result.writer.sent == masked(body)
        assert result.writer.content_type == "application/json"
        assert result.logged["result_urls"] == [link]


async def test_headers_that_are_passed_on_name_nothing_either() -> None:
    limited = response_of(sse.error_body("no"), status=429, retry_after=f"7; {KEY}")
    async with world(a=[limited]) as w:
        result = await w.call()
        assert result.refusal.headers == {}


@logs("channel_key_refused", required=False)
@each("status", [401, 503])
async def test_message_of_an_error_gives_nothing_away(status: int) -> None:
    async with world(a=[response_of(sse.error_body(LEAK), status=status)]) as w:
        result = await w.call()
        for shown in (result.refusal.message, str(result.row)):
            assert KEY not in shown
            assert HOST not in shown


async def test_address_of_an_unreachable_upstream_is_not_shown() -> None:
    async with world(a=[(UpstreamUnreachable("connect: refused by 10.0.0.7:443"),)]) as w:
        result = await w.call()
        assert "10.0.0.7" not in result.refusal.message
        assert "10.0.0.7" not in str(result.row)
