"""The `minimax` dialect: speech, as hexadecimal digits in the response or as a task with a file.

Errors have status 200, and are in `base_resp`. A task that has succeeded names a file, whose link
is requested separately and expires after nine hours.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import msgspec
from msgspec import Raw, Struct

from channels.dialects.error_body import message_in
from channels.json.lenient import BYTE_ORDER_MARK, NULL, read_loosely
from channels.json.outline import outline
from channels.media import model, outcomes, replies, requests, results, values
from channels.media.plain.bodies import encoded
from channels.media.plain.submits import post
from channels.media.recordings import CONTENT_TYPES

AT_ONCE = "/v1/t2a_v2"
AS_TASK = "/v1/t2a_async_v2"
QUERY = "/v1/query/t2a_async_query_v2"
FILE = "/v1/files/retrieve"
LINK_SECONDS = 9 * 3600.0

# The HTTP status of a `base_resp.status_code`; 0 is success, any other is 502.
STATUSES: Mapping[str | None, int] = MappingProxyType({"1002": 429, "1039": 429, "2013": 400})


class MiniMax(model.BaseDialect):
    """Serves `speech`."""

    name = "minimax"

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        if not isinstance(submission, requests.SpeechRequest):
            self.not_served(submission)
        body = _body(submission)
        if submission.is_async:
            return post(AS_TASK, encoded(body), _accepted, idempotency_key=idempotency_key)
        return post(
            AT_ONCE,
            encoded(body | {"stream": False, "output_format": "hex"}),
            partial(_sound, submission.response_format),
            idempotency_key=idempotency_key,
            response_bytes_max=2 * model.AUDIO_BYTES_MAX,
        )

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        request = model.MediaRequest(method="GET", path=QUERY, query=(("task_id", upstream_id),))
        return model.Exchange(request=request, read=_read)


def _body(request: requests.SpeechRequest) -> dict[str, object]:
    setting: dict[str, object] = {"voice_id": request.voice}
    if request.speed is not None:
        setting["speed"] = request.speed
    return {
        "model": request.model,
        "text": request.input,
        "voice_setting": setting,
        "audio_setting": {"format": request.response_format},
    }


def _status(value: object) -> int:
    """Return the HTTP status of a decoded response; 200 if it reports no error."""
    code = values.identifier(values.member(value, "base_resp", "status_code"))
    return 200 if code in (None, "0") else STATUSES.get(code, 502)


def _failure(value: object) -> replies.Refused | replies.Failed | None:
    """Return the failure that a submit's response reports; None if it reports none."""
    status = _status(value)
    if status == 200:
        return None
    message = message_in(values.member(value, "base_resp", "status_msg"))
    if status < 500:
        return replies.Refused(status=status, message=message)
    return replies.Failed(status=status, message=message)


def _accepted(response: model.MediaResponse) -> replies.SubmitReply:
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    value = values.json_of(response)
    if (failure := _failure(value)) is not None:
        return failure
    upstream_id = values.identifier(values.member(value, "task_id"))
    return outcomes.unusable("no id") if upstream_id is None else replies.Accepted(upstream_id)


class _Data(Struct):
    audio: Raw = NULL


class _Response(Struct):
    data: _Data | None = None


_RESPONSE = msgspec.json.Decoder(_Response)


def _sound(
    response_format: requests.AudioFormat, response: model.MediaResponse
) -> replies.SubmitReply:
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    # The outline omits the digits, which are read below.
    failure = _failure(read_loosely(outline(response.body), mends=False))
    if failure is not None:
        return failure
    if response.is_cut_off:
        return outcomes.unusable("too much sound")
    digits = _digits(response.body)
    if digits is None:
        return outcomes.unusable("no sound")
    return replies.Done(
        results.SpeechAudio(content_type=CONTENT_TYPES[response_format], data=digits, is_hex=True)
    )


def _digits(body: bytes) -> bytes | None:
    """Return the hexadecimal digits of a recording; None if they are missing or incomplete."""
    try:
        data = _RESPONSE.decode(body.removeprefix(BYTE_ORDER_MARK)).data
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if data is None:
        return None
    encoded = memoryview(data.audio)
    if bytes(encoded[:1]) != b'"':
        return None
    digits = bytes(encoded[1:-1])
    is_whole = len(digits) % 2 == 0 and not digits.translate(None, _HEX)
    return digits if digits and is_whole else None


_HEX = b"0123456789abcdefABCDEF"


def _trouble(value: object, response: model.MediaResponse) -> replies.PollReply | None:
    """Return the failure that a poll's response reports; None if it reports none."""
    status = _status(value)
    if status == 200:
        return None
    if status == 429:
        return replies.RateLimited()
    reason = message_in(values.member(value, "base_resp", "status_msg")) or "an error"
    return replies.Trouble(reason=reason, status=response.status)


def _read(
    response: model.MediaResponse,
) -> replies.PollReply | model.Exchange[replies.PollReply]:
    if (fault := outcomes.poll_trouble(response)) is not None:
        return fault
    value = values.json_of(response)
    if (trouble := _trouble(value, response)) is not None:
        return trouble
    status = values.word(values.member(value, "status"))
    file_id = values.identifier(values.member(value, "file_id"))
    if outcomes.state_of(status) == "succeeded" and file_id is not None:
        request = model.MediaRequest(method="GET", path=FILE, query=(("file_id", file_id),))
        return model.Exchange(request=request, read=partial(_file, status))
    if not isinstance(value, dict):
        return replies.Trouble(reason="no JSON object", status=response.status)
    error = values.member(value, "base_resp", "status_msg")
    return outcomes.polled(
        status, result=None, error=None if values.word(error).lower() == "success" else error
    )


def _file(status: str, response: model.MediaResponse) -> replies.PollReply:
    """Return the link of a task's file. If it cannot be read now, the task is polled again."""
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return (
            replies.Trouble(reason="no file") if isinstance(trouble, replies.NotFound) else trouble
        )
    value = values.json_of(response)
    if (failure := _trouble(value, response)) is not None:
        return failure
    if not isinstance(value, dict):
        return replies.Trouble(reason="no JSON object", status=response.status)
    url = values.link(values.member(value, "file", "download_url"))
    if url is None:
        return outcomes.polled(status, result=None)
    now = response.received_at
    ends = values.link_end(url, now=now, at_most=now + LINK_SECONDS)
    return outcomes.polled(status, result=results.SpeechResult(url=url, expires_at=ends))
