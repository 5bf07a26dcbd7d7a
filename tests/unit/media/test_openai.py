"""The `openai` dialect: a prompt, seconds as a string, four sizes, no link of its own."""

from __future__ import annotations

from typing import Any

from channels.media.canonical import Accepted, GeneralVideo, Polled, TaskError, VideoResult
from channels.media.openai import OpenAI
from tests.support.rows import cases
from tests.unit.media.wire import end, general, item, polled, response, sent, submit

OPENAI = OpenAI()
IMAGE = "data:image/png;base64,AAAA"


@cases(
    "request_, body",
    (general(), {"model": "film", "prompt": "A cat"}),
    (
        general(
            item("text", "A cat"),
            item("image_url", IMAGE),
            item("text", "on a mat"),
            item("image_url", "https://i/2"),
            duration=8,
            resolution="720p",
            ratio="9:16",
            watermark=True,
        ),
        {
            "model": "film",
            "prompt": "A cat\non a mat",
            "seconds": "8",
            "size": "720x1280",
            "input_reference": {"image_url": IMAGE},
        },
    ),
    (
        general(duration=8.0, resolution="1080p", ratio="16:9"),
        {"model": "film", "prompt": "A cat", "seconds": "8", "size": "1920x1080"},
    ),
    (
        general(duration=7.25, resolution="1080p", ratio="1:1"),
        {"model": "film", "prompt": "A cat", "seconds": "7.25"},
    ),
    (
        general(duration=0.00001, resolution="720p"),
        {"model": "film", "prompt": "A cat", "seconds": "0.00001"},
    ),
)
def test_submit(request_: GeneralVideo, body: Any) -> None:
    asked = submit(OPENAI, request_)
    assert (asked.request.path, sent(asked.request)) == ("/v1/videos", body)
    assert end(asked, response({"id": "video_1", "status": "queued"})) == Accepted("video_1")


def test_paths() -> None:
    assert OPENAI.poll("video", "video_1").request.path == "/v1/videos/video_1"
    cancel, content = OPENAI.cancel("video", "video_1"), OPENAI.content("video_1")
    assert cancel is not None
    assert content is not None
    assert (cancel.request.method, cancel.request.path) == ("DELETE", "/v1/videos/video_1")
    assert (content.method, content.path) == ("GET", "/v1/videos/video_1/content")


@cases(
    "value, reply",
    ({"status": "queued", "progress": 0}, Polled(state="queued", word="queued", progress=0)),
    (
        {"status": "in_progress", "progress": 33},
        Polled(state="running", word="in_progress", progress=33),
    ),
    (
        {"status": "completed", "progress": 100, "seconds": "8"},
        Polled(state="succeeded", word="completed", result=VideoResult(url=None), seconds_ms=8000),
    ),
    (
        {"status": "failed", "error": {"code": "moderation_blocked", "message": "No."}},
        Polled(
            state="failed", word="failed", error=TaskError(code="moderation_blocked", message="No.")
        ),
    ),
)
def test_poll(value: Any, reply: Polled) -> None:
    assert polled(OPENAI, value) == reply
