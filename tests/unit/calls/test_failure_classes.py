"""Every way an attempt may fail, in every protocol, plain and streamed, in one table.

What the client is told when it was the last one, whether another channel is asked while there is
one, what the row calls it, and whether it counts against the channel.
"""

import json
from dataclasses import dataclass
from typing import Any

import pytest

from channels.dialects.table import CHAT_DIALECTS
from channels.errors import ErrorReported, UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.http.interfaces import UpstreamRequest
from gw.calls import chat_upstream
from tests.support.rows import each
from tests.unit.calls import sse
from tests.unit.calls.relaying import translated, untranslated
from tests.unit.calls.test_settlement import counts
from tests.unit.calls.world import CallResult, Script, World, response_of, world

WORDS = "It is the upstream's own fault."


@dataclass(frozen=True)
class Fails:
    """A failure, and what becomes of it; `says`: the client is told the upstream's words."""

    script: Script
    reported: tuple[int, str]
    attempt: str
    outcome: str
    next_is_tried: bool = True
    says: bool = False


UNREACHABLE = (502, "upstream_unreachable")
ERROR = (502, "upstream_error")
REPORT = json.dumps({"error": {"message": WORDS, "type": "server_error", "code": "x"}}).encode()
OTHER_REPORT = json.dumps({"code": 17, "msg": WORDS}).encode()
PAGE = b"<html><title>Welcome to nginx</title></html>"

# Of every answer, plain or streamed.
BEFORE_THE_BODY = {
    "not connected, or lost before the first byte": Fails(
        (UpstreamUnreachable("refused by 10.0.0.7"),),
        UNREACHABLE,
        "upstream_unreachable",
        "unreachable",
    ),
    "lost within the head": Fails((UpstreamCut(),), ERROR, "upstream_cut", "cut"),
    "no HTTP": Fails((UpstreamMalformed(),), ERROR, "upstream_malformed", "malformed"),
    "500": Fails(
        response_of(REPORT, status=500),
        (500, "upstream_error"),
        "upstream_500",
        "status_5xx",
        says=True,
    ),
    "503 without a body": Fails(
        response_of(status=503), (503, "upstream_error"), "upstream_503", "status_5xx"
    ),
    "529": Fails(response_of(status=529), (529, "upstream_error"), "upstream_529", "status_5xx"),
    "502 whose body breaks off": Fails(
        response_of(PAGE, UpstreamCut(), status=502), ERROR, "upstream_502", "status_5xx"
    ),
    "302": Fails(
        response_of(PAGE, status=302, location="http://elsewhere.example/"),
        ERROR,
        "upstream_302",
        "status_3xx",
        next_is_tried=False,
    ),
    "304": Fails(response_of(status=304), ERROR, "upstream_304", "status_3xx", next_is_tried=False),
    "204": Fails(response_of(status=204), ERROR, "upstream_204", "malformed", next_is_tried=False),
    "no status of HTTP": Fails(
        response_of(status=700), ERROR, "upstream_700", "status_3xx", next_is_tried=False
    ),
    "nothing": Fails(response_of(), ERROR, "upstream_malformed", "malformed"),
    "a web page": Fails(response_of(PAGE), ERROR, "upstream_malformed", "malformed"),
    "broken JSON": Fails(
        response_of(b'{"choices": [{"mess'), ERROR, "upstream_malformed", "malformed"
    ),
    "JSON of something else": Fails(
        response_of(b'{"ready": true}'), ERROR, "upstream_malformed", "malformed"
    ),
    "an error body": Fails(response_of(REPORT), ERROR, "upstream_error", "error_event", says=True),
    "an error body of another form": Fails(
        response_of(OTHER_REPORT), ERROR, "upstream_error", "error_event", says=True
    ),
    "lost within the body": Fails(
        response_of(b'{"id"', UpstreamCut()), ERROR, "upstream_cut", "cut"
    ),
    "without an end": Fails(
        response_of(b" " * 1_000_001), ERROR, "upstream_malformed", "malformed"
    ),
    "broken on its way": Fails(
        response_of(b'{"id"', UpstreamMalformed()), ERROR, "upstream_malformed", "malformed"
    ),
}

WAYS = {
    **{protocol: untranslated(protocol) for protocol in CHAT_DIALECTS},
    "chat over messages": translated("chat", "messages"),
    "chat over native": translated("chat", "native"),
    "messages over chat": translated("messages", "chat"),
}


async def failing(w: World, fails: Fails, **options: Any) -> CallResult:
    """One call that fails on the first channel, and what must hold of it wherever it is tried."""
    reported = await w.call(**options)
    assert reported.writer.blocks == []
    assert (reported.cost, reported.attempts) == (0, [fails.attempt])
    assert w.verdict("a") == "failure"
    outcomes = counts(w, "gw_attempts_total")
    assert outcomes[f'{{channel="a",outcome="{fails.outcome}"}}'] == 1
    return reported


@each("fails", BEFORE_THE_BODY.values())
@each("way", WAYS)
@each("stream", [False, True])
async def test_failure_is_shown_by_its_class_and_tried_elsewhere_where_it_may(
    fails: Fails, way: str, stream: bool
) -> None:
    async with world(a=[fails.script]) as w:
        reported = await failing(w, fails, stream=stream, plan=WAYS[way])
        assert (reported.refusal.http_status, reported.refusal.kind.code) == fails.reported
        assert reported.status == ("error", fails.reported[1])
        assert (reported.refusal.message == WORDS) == fails.says
        assert "Location" not in reported.refusal.headers
    refusing = response_of(sse.error_body("no"), status=400)  # an answer, whatever the protocol
    async with world(a=[fails.script], b=[refusing]) as w:
        await failing(w, fails, stream=stream, plan=WAYS[way])
        assert w.http.tried == (["a", "b"] if fails.next_is_tried else ["a"])


ERROR_FIRST = {
    "chat": sse.error_event(WORDS),
    "messages": sse.event({"type": "error", "error": {"type": "x", "message": WORDS}}),
    "responses": sse.event({"type": "error", "code": "x", "message": WORDS}),
    "native": sse.event({"error": {"code": 503, "message": WORDS, "status": "UNAVAILABLE"}}),
}
# Nothing of these is an event that the client gets.
BEFORE = {
    "at once": b"",
    "after a comment": sse.KEEP_ALIVE,
    "after a usage that is withheld": sse.usage_event(3, 0),
}
# The others state their usage in events that are the client's.
BEGINNINGS = [
    (way, name) for way in WAYS for name in BEFORE if way == "chat" or "usage" not in name
]


@each("way, before", BEGINNINGS)
@each("ends", [True, False])
@each("cut", [1, 10_000])
async def test_stream_that_begins_with_an_error_has_sent_nothing(
    way: str, before: str, ends: bool, cut: int
) -> None:
    upstream = way.rpartition(" ")[2]
    events = BEFORE[before] + ERROR_FIRST[upstream] + (sse.DONE if ends else b"")
    pieces = [events[at : at + cut] for at in range(0, len(events), cut)]
    script = response_of(*pieces, *(() if ends else (UpstreamCut(),)))
    fails = Fails(script, ERROR, "upstream_error", "error_event", says=True)
    async with world(a=[script]) as w:
        reported = await w.call(stream=True, plan=WAYS[way])
        assert reported.status == ("error", "upstream_error")
        if way == upstream:  # passed through, for want of another channel
            assert reported.error is None
            assert ERROR_FIRST[upstream] in reported.writer.sent
        else:
            assert reported.refusal.message == WORDS
            assert reported.writer.sent == b""
    refusing = response_of(sse.error_body("no"), status=400)
    async with world(a=[script], b=[refusing]) as w:
        await failing(w, fails, stream=True, plan=WAYS[way])
        assert w.http.tried == ["a", "b"]


@pytest.mark.parametrize("body", [REPORT, OTHER_REPORT], ids=["error", "another form"])
@pytest.mark.parametrize("way", WAYS)
def test_error_in_place_of_a_response_is_read_once(
    monkeypatch: pytest.MonkeyPatch, way: str, body: bytes
) -> None:
    read: list[str] = []
    loads = json.loads

    def counted(text: str, **options: Any) -> Any:
        read.append(text)
        return loads(text, **options)

    monkeypatch.setattr(json, "loads", counted)
    request = UpstreamRequest("POST", "http://a.example/", (), b"{}")
    error = chat_upstream._unusable(body, WAYS[way](request))
    assert isinstance(error, ErrorReported)
    assert (error.members.message, error.status, len(read)) == (WORDS, 502, 1)
