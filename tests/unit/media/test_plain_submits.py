"""Submits on the plain wire as tables: what is sent for what is asked, what an answer means."""

import json
from typing import Any

from channels.media.plain.dialect import Plain
from channels.media.replies import Accepted, Done, Failed, Refused, SubmitReply, Unknown
from channels.media.requests import SpeechRequest, TranscriptRequest, VoiceRequest
from channels.media.results import Segment, SpeechAudio, TranscriptResult, VoiceResult
from tests.support.rows import cases, each
from tests.unit.media.bodies import (
    ABSENT,
    AUDIO,
    FILM,
    IMAGE,
    MATERIAL,
    PORTRAIT,
    TEXT,
    read,
    written,
)
from tests.unit.media.exchanges import KEY, end, general, item, next_of, response, sent, submit

PLAIN = Plain()

# Kinds of requests, what a client says of each, and where it goes.
SUBMITS: list[tuple[str, dict[str, Any], str]] = [
    (
        "general",
        {
            "content": [TEXT, {**PORTRAIT, "role": "first_frame"}],
            "duration": 5,
            "resolution": "720p",
            "ratio": "16:9",
            "watermark": False,
            "video_mode": "extend",
            "portrait_auth": True,
            "seed": 7,
            "camera": {"fixed": True},
        },
        "/v1/videos/generations",
    ),
    (
        "dh-avatar",
        {"audio_url": ABSENT, "voice": "up-v", "text": "Hi", "title": "T"},
        "/v1/videos/generations",
    ),
    ("dh-lipsync", {"duration": 2.5}, "/v1/videos/generations"),
    ("dh-motion", {"resolution": "max", "face_count": 1}, "/v1/videos/generations"),
    (
        "news",
        {
            "duration": 60,
            "materials": [MATERIAL, {"type": "video", "file_url": FILM, "sound_switch": True}],
            "material_composition": "order",
            "bgm": {"mode": "custom", "url": AUDIO, "volume": 0.5},
            "cover_url": IMAGE,
            "introduce_card": {"name": "N"},
        },
        "/v1/videos/generations",
    ),
    ("avatar", {"source_kind": "video"}, "/v1/videos/avatars"),
    (
        "music",
        {"prompt": ABSENT, "lyrics": "La", "tags": "pop", "instrumental": False},
        "/v1/music/generations",
    ),
    ("speech", {"response_format": "mp3", "speed": 1.5}, "/v1/audio/speech"),
    ("speech", {"response_format": "wav", "async": True}, "/v1/audio/speech"),
    ("voice", {}, "/v1/audio/voices"),
    ("transcript", {"model": "m", "language": "en"}, "/v1/transcripts/extract"),
]


@each("kind, stated, path", SUBMITS)
def test_submit_sends_the_clients_own_fields(kind: str, stated: dict[str, Any], path: str) -> None:
    request = submit(PLAIN, read(kind, **stated)).request
    assert (request.method, request.path, request.query) == ("POST", path, ())
    assert request.headers == (("Idempotency-Key", KEY),)
    body = json.loads(written(kind, **stated))
    body.pop("portrait_auth", None)  # of an image that is registered
    assert sent(request) == body


# Status, body, what it means. The same for every submit of a task.
RESPONSES: list[tuple[int, Any, SubmitReply]] = [
    (200, {"id": "t-1", "status": "queued"}, Accepted("t-1")),
    (201, {"id": 17}, Accepted("17")),
    (200, {"status": "queued"}, Unknown(status=502, reason="no id")),
    (200, {"id": True}, Unknown(status=502, reason="no id")),
    (200, {"id": ".."}, Unknown(status=502, reason="no id")),
    (200, {"id": "a\nb"}, Unknown(status=502, reason="no id")),
    (200, {"id": "x" * 257}, Unknown(status=502, reason="no id")),
    (200, [{"id": "t"}], Unknown(status=502, reason="no id")),
    (204, None, Unknown(status=502, reason="status 204")),
    (302, None, Unknown(status=502, reason="status 302")),
    (400, {"error": {"code": "x", "message": "No."}}, Refused(status=400, message="No.")),
    (422, {"error": "No."}, Refused(status=422, message="No.")),
    (429, {"message": "Slow."}, Refused(status=429, message="Slow.", retry_after="7")),
    (403, None, Refused(status=403)),
    (500, {"error": {"message": "Oh."}}, Failed(status=500, message="Oh.")),
    (503, {}, Failed(status=503, retry_after="7")),
    (504, {"message": "Late."}, Unknown(status=504, reason="status 504")),
]


@each("status, value, reply", RESPONSES)
def test_answer_to_a_submit(status: int, value: Any, reply: SubmitReply) -> None:
    headers = {"retry-after": "7"} if status in (429, 503) else {}
    assert end(submit(PLAIN, general()), response(value, status=status, headers=headers)) == reply


def test_retry_after_is_kept_as_it_was_stated() -> None:
    """Whether it may be sent is judged where every upstream's is (`gw/calls/endings.py`)."""
    result = response(status=429, headers={"retry-after": "soon"})
    assert end(submit(PLAIN, general()), result) == Refused(status=429, retry_after="soon")


def test_answer_that_is_no_json_or_too_long_leaves_the_outcome_unknown() -> None:
    for result in (response(body=b"<html>"), response({"id": "t"}, is_cut_off=True)):
        assert end(submit(PLAIN, general()), result) == Unknown(status=502, reason="no id")


def test_images_are_registered_before_the_film_is_requested() -> None:
    request = general(
        item("image_url", "https://i/1", role="reference_image"),
        item("text", "A cat"),
        item("image_url", "https://i/2"),
        registers_images=True,
        portrait_auth=True,
    )
    first = submit(PLAIN, request)
    assert (first.request.path, sent(first.request)) == (
        "/v1/assets",
        {"model": "film", "type": "image", "url": "https://i/1", "portrait_auth": True},
    )
    second = next_of(first, response({"id": "as1"}))
    assert sent(second.request)["url"] == "https://i/2"
    keys = {exchange.request.headers for exchange in (first, second)}
    film = next_of(second, response({"id": "as2"}))
    assert film.request.path == "/v1/videos/generations"
    assert film.request.headers == (("Idempotency-Key", KEY),)
    assert len(keys | {film.request.headers}) == 3
    assert sent(film.request) == {
        "model": "film",
        "content": [
            {"type": "image_url", "image_url": {"url": "asset://as1"}, "role": "reference_image"},
            {"type": "text", "text": "A cat"},
            {"type": "image_url", "image_url": {"url": "asset://as2"}},
        ],
    }
    assert end(film, response({"id": "t"})) == Accepted("t")


@cases(
    "status, value, reply",
    (403, {"message": "Not you."}, Refused(status=400, message="Not you.", is_rejected=True)),
    (429, None, Refused(status=400, is_rejected=True)),
    (500, None, Failed(status=500)),
    (504, None, Unknown(status=504, reason="status 504")),
    (200, {}, Unknown(status=502, reason="no id")),
)
def test_image_that_cannot_be_registered(status: int, value: Any, reply: SubmitReply) -> None:
    request = general(item("text", "x"), item("image_url", "https://i"), registers_images=True)
    assert end(submit(PLAIN, request), response(value, status=status)) == reply


@cases(
    "headers, content_type",
    ({"content-type": "audio/x-wav; rate=8000"}, "audio/x-wav; rate=8000"),
    ({"content-type": "application/octet-stream"}, "audio/ogg"),
    ({"content-type": "audio/\x00"}, "audio/ogg"),
    ({}, "audio/ogg"),
)
def test_speech_is_the_sound_itself(headers: dict[str, str], content_type: str) -> None:
    speech = submit(PLAIN, SpeechRequest(model="m", input="Hi", voice="v", response_format="opus"))
    reply = end(speech, response(body=b"sound", headers=headers))
    assert reply == Done(SpeechAudio(content_type=content_type, data=b"sound"))


@cases(
    "answer",
    response({"id": "t"}, headers={"content-type": "application/json"}),
    response(body=b"<html>", headers={"content-type": "text/html"}),
    response(body=b"", headers={"content-type": "audio/mpeg"}),
    response(body=b"so", headers={"content-type": "audio/mpeg"}, is_cut_off=True),
)
def test_what_is_no_sound_leaves_the_outcome_unknown(answer: Any) -> None:
    reply = end(submit(PLAIN, SpeechRequest(model="m", input="Hi", voice="v")), answer)
    assert isinstance(reply, Unknown)


def test_voice_is_there_at_once() -> None:
    requested = submit(PLAIN, VoiceRequest(model="m", name="N", audio_url=AUDIO))
    assert end(requested, response({"id": "v-1"})) == Done(VoiceResult(upstream_id="v-1"))
    assert end(requested, response({}, status=502)) == Failed(status=502)


SCRIPT = {
    "id": "t",
    "text": "Hello\nyou",
    "title": "A film",
    "language": "en",
    "duration_sec": 61.5,
    "segments": [{"start": 0, "end": 1.5, "text": "Hello"}, "odd", {"text": "you"}],
}
TRANSCRIPT = Done(
    TranscriptResult(
        text="Hello\nyou",
        title="A film",
        language="en",
        duration_sec=61.5,
        segments=(
            Segment(start=0, end=1.5, text="Hello"),
            Segment(start=None, end=None, text="you"),
        ),
    )
)


def test_script_comes_at_once_or_is_looked_for_every_second() -> None:
    requested = submit(PLAIN, TranscriptRequest(model="m", url=FILM))
    assert end(requested, response(SCRIPT)) == TRANSCRIPT
    looking = next_of(requested, response({"id": "t/1", "status": "queued"}))
    assert looking.request.path == "/v1/transcripts/extract/t%2F1"
    assert (looking.after_seconds, looking.repeats) == (1.0, True)
    for result in (
        response({"id": "t/1", "status": "running"}),
        response(status=429),
        response(status=404),
        response(status=500),
        response(body=b"<html>"),
    ):
        assert next_of(looking, result) is looking
    assert end(looking, response({"status": "succeeded", **SCRIPT})) == TRANSCRIPT


@cases(
    "value, message",
    ({"id": "t", "status": "failed", "error": {"message": "No speech."}}, "No speech."),
    ({"id": "t", "status": "failed", "error": "No speech."}, "No speech."),
    ({"id": "t", "status": "expired"}, "The task expired at the upstream."),
    ({"id": "t", "status": "success"}, "The upstream reported success without a script."),
)
def test_script_that_fails_is_final(value: Any, message: str) -> None:
    requested = submit(PLAIN, TranscriptRequest(model="m", url=FILM))
    failed = Failed(status=502, message=message, is_final=True)
    assert end(requested, response(value)) == failed
    assert end(next_of(requested, response({"id": "t"})), response(value)) == failed
