"""Another channel is tried when one fails (reference 10.2)."""

from typing import Any

from loadtests.rig.deployment import Deployment, channel, model
from tests.acceptance.pictures import picture
from tests.support.rows import each

SETTINGS: dict[str, Any] = {
    "channels": [
        *(channel(name, priority=n) for n, name in enumerate(("one", "two", "three", "four"), 1)),
        channel("late", priority=9),
        channel("quiet", priority=1, first_event_seconds=0.3),
        *(
            channel(f"{name}-{kind}", priority=place, on_429="next", protocols=[kind])
            for kind in ("chat", "messages", "images")
            for place, name in enumerate(("busy", "idle"), 1)
        ),
    ],
    "models": [
        model("sim-model", "one", "two", "three", "four"),
        model("hushed", {"id": "quiet", "first_event_seconds": 0.5}, "late"),
        *(model(f"of-{kind}", f"busy-{kind}", f"idle-{kind}") for kind in ("chat", "messages")),
        picture("of-images", "busy-images", "idle-images"),
    ],
}
LADDER = ("one", "two", "three", "four")


def failed(h: Deployment, *channels: str, **directive: Any) -> None:
    """Make channels fail in the same way."""
    for name in channels:
        h.upstream.fault(name, **directive)


# What a channel does, and whether the call is streamed. Nothing has been sent to the client yet.
BROKEN: list[tuple[dict[str, Any], bool]] = [
    ({"status": 500}, False),
    ({"status": 529}, True),
    ({"status": 599, "body": "<html>gone</html>"}, False),
    ({"refuse": True}, True),
    ({"refuse": True, "cut": "reset"}, False),
    ({"malformed": "http"}, False),
    ({"cut_after_events": 0}, True),
    ({"cut_after_bytes": 10}, True),
    ({"malformed": "chunk", "cut_after_events": 0}, True),
    ({"cut_after_bytes": 20}, False),
    ({"malformed": "json"}, False),
    ({"malformed": "html"}, False),
]


@each("directive, stream", BROKEN)
def test_failed_channel_is_followed_by_the_next(
    h: Deployment, directive: dict[str, Any], stream: bool
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    failed(h, "one", "two", **directive)
    reply = tenant.client.chat(stream=stream, sim={"usage": {"input": 10, "output": 10}})
    assert reply.status == 200
    assert reply.is_complete or not stream
    assert h.upstream.requested(*LADDER) == [1, 1, 1, 0]
    # Paid once, and the row knows of the two that failed.
    assert tenant.client.remaining_nano_usd() == 10**9 - 10 * 1_000 - 10 * 10_000
    row = h.row(reply.trace)
    assert row["status"] == "success"
    assert [attempt["seq"] for attempt in row["attempts"]] == [1, 2]
    assert all(attempt["error_code"].startswith("upstream_") for attempt in row["attempts"])


@each("silence", [{"hang": "headers"}, {"comments_only": True, "delay_event_ms": 20}])
def test_silent_stream_is_left_for_the_next_channel_and_charged_once(
    h: Deployment, silence: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    failed(h, "quiet", **silence)
    reply = tenant.client.chat(model="hushed", stream=True)
    assert (reply.status, reply.events[-1]) == (200, b"[DONE]")
    h.upstream.wait(channel="quiet", cancelled=1)
    assert h.upstream.requested("quiet", "late") == [1, 1]
    row = h.row(reply.trace)
    assert (row["status"], row["attempts"][0]["error_code"]) == ("success", "upstream_unreachable")
    spent = 10**9 - tenant.client.remaining_nano_usd()
    assert row["cost_nano_usd"] == spent > 0


HELLO = [{"role": "user", "content": "Hello"}]
SENDS: list[tuple[str, str, dict[str, Any]]] = [
    ("chat", "/v1/chat/completions", {"messages": HELLO}),
    ("messages", "/v1/messages", {"messages": HELLO, "max_tokens": 9, "stream": True}),
    ("images", "/v1/images/generations", {"prompt": "a boat"}),
]


@each("kind, path, body", SENDS)
def test_throttled_channel_is_left_once_and_rests(
    h: Deployment, kind: str, path: str, body: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant, body = h.tenant(), {"model": f"of-{kind}", **body}
    busy, idle = f"busy-{kind}", f"idle-{kind}"
    failed(h, busy, status=429, headers={"Retry-After": "60"})
    replies = [tenant.client.send("POST", path, body) for _ in range(2)]
    assert [reply.status for reply in replies] == [200, 200]
    assert h.upstream.requested(busy, idle) == [1, 2]
    rows = [h.row(reply.trace) for reply in replies]
    assert [row["status"] for row in rows] == ["success"] * 2
    assert [one["error_code"] for one in rows[0]["attempts"]] == ["upstream_429"]
    assert not rows[1]["attempts"]
    assert rows[0]["cost_nano_usd"] == rows[1]["cost_nano_usd"] > 0
    failed(h, idle, status=429)
    last = tenant.client.send("POST", path, body)
    assert (last.status, h.upstream.requested(busy, idle)) == (429, [1, 3])
