"""A large body is read, written anew, translated and metered elsewhere as it would be here."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from channels.dialects.chat import request as chat
from channels.dialects.dialect import renamed_body
from channels.dialects.gemini import request as gemini
from channels.dialects.images import dialect as images
from channels.dialects.messages import request as messages
from channels.dialects.responses import request as responses
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.json.lenient import dumps
from channels.json.weight import READ_VALUES_MAX, TRANSLATED_VALUES_MAX, weight_of
from channels.offload import jobs
from channels.offload.pool import (
    Helpers,
    OffloadPool,
)
from channels.offload.process import Job
from channels.translation import session
from channels.translation.inner_values import VALUES_MAX
from channels.translation.paths import TRANSLATIONS, Translation, translation_between
from channels.translation.session import TranslatedCall, request_of
from gw.calls.request import ClientRequest
from tests.support.rows import cases, each
from tests.unit.translation.test_odd_values import BODIES

TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
GEMINI_PATH = {"model": "m", "stream": False}
STATED = [{"role": "user", "content": "Hello. " * 1000}]
REQUESTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "chat": (
        {"model": "m", "messages": STATED, "stream": True, "stream_options": {"x": [1] * 999}},
        {},
        {"upstream_model": "u", "max_tokens_param": None, "default_max_tokens": 9},
    ),
    "messages": ({"model": "m", "max_tokens": 5, "messages": STATED}, {}, {"upstream_model": "u"}),
    "responses": (
        {"model": "m", "input": "Hello. " * 1000},
        {},
        {"upstream_model": "u", "default_max_tokens": 9},
    ),
    "native": (
        {"contents": [{"parts": [{"text": "Hello. " * 1000}]}], "generationConfig": {"topK": 1}},
        GEMINI_PATH,
        {"upstream_model": "u", "default_max_tokens": 9},
    ),
    "images": ({"model": "m", "prompt": "a boat " * 1000}, {}, {"upstream_model": "u"}),
}
MODULES: dict[str, Any] = {
    "chat": chat,
    "messages": messages,
    "responses": responses,
    "native": gemini,
    "images": images,
}


@each("protocol", REQUESTS)
def test_request_comes_back_without_its_body(protocol: str) -> None:
    requested, path, options = REQUESTS[protocol]
    body = json.dumps(requested).encode()
    read, _ = jobs.read_request(body, protocol, path)
    sent = pickle.dumps(read)
    assert len(sent) < 2_000
    here = MODULES[protocol].read_request(body, **path)
    there = pickle.loads(sent)
    for name in ("model", "stream", "content_bytes", "max_tokens", "builtin_tools", "parameters"):
        assert getattr(there, name, None) == getattr(here, name, None)
    _, written = jobs.passthrough_job(body, protocol, path, options)
    module = MODULES[protocol]
    assert written == getattr(module, "upstream_body", renamed_body)(here, **options)


def test_body_that_needs_no_change_does_not_come_back() -> None:
    body = json.dumps({"model": "u", "max_tokens": 5, "messages": STATED}).encode()
    assert jobs.passthrough_job(body, "messages", {}, {"upstream_model": "u"}) == (None, None)


@each("translation", TRANSLATIONS.values())
def test_translation_is_the_same(translation: Translation) -> None:
    requested, _ = BODIES[translation.client]
    requested = {**requested, **{f"unknown_{number}": 1 for number in range(90)}}
    body = json.dumps(requested).encode()
    options: dict[str, Any] = {"model": "u", "stream": False, "max_tokens": 9}
    call = TranslatedCall(translation, request_of(body))
    expected = dumps(call.upstream_body(**options))
    call.report.drop("a-header")
    made, written = session.translated_body(body, translation, options, ["a-header"])
    assert written == expected
    assert made.report.warning() == call.report.warning()
    assert len(pickle.dumps(made)) < 5_000
    for path in sorted((TRANSCRIPTS / f"{translation.upstream}_whole").glob("*.json")):
        response = path.read_bytes()
        message = {"id": "a", "created": 1, "model": "m"}
        try:
            metered, whole = jobs.metered(
                response, translation.upstream, translation.client, call.names, message
            )
        except UpstreamMalformed:
            continue
        meter = CHAT_DIALECTS[translation.upstream].new_meter()
        read = meter.take_body(response)
        back = pickle.loads(pickle.dumps(metered)).meter
        assert repr(back) == repr(meter)
        if metered.fault is None:
            named = {"id": meter.response_id or "a", "model": meter.response_model or "m"}
            assert whole == call.translate_response(read, meter, created=1, **named)


def test_too_many_values_are_refused_and_texts_are_no_values() -> None:
    head, tail = b'{"model":"m","messages":[{"role":"user","content":"', b'"}]}'
    text = head + b'a, [b], {c}, \\"' * VALUES_MAX + tail
    assert jobs.read_request(text, "chat", {})[0].model == "m"
    lists = b'{"model":"m","messages":[{"role":"user","content":"x"}],"x":[%b[]]}'
    with pytest.raises(InvalidRequest, match="more than 500000 values"):
        jobs.read_request(lists % (b"[]," * VALUES_MAX), "chat", {})
    jobs.read_request(lists % (b"[]," * 1000), "chat", {})


def started_with(arguments: list[str]) -> bytes:
    """A conversation whose calls have these arguments."""
    calls = [
        {"id": f"c{number}", "function": {"name": "f", "arguments": text}}
        for number, text in enumerate(arguments)
    ]
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "x"} for call in calls]
    return dumps({"model": "m", "messages": [{"role": "assistant", "tool_calls": calls}, *results]})


@cases("upstream", "native", "messages")
def test_values_in_arguments_count_as_those_of_the_body(upstream: str) -> None:
    options = {"model": "u", "stream": False, "max_tokens": 9}
    translation = translation_between("chat", upstream)
    body = started_with([",".join(["[]"] * (VALUES_MAX // 2))] * 3)
    with pytest.raises(InvalidRequest, match="more than 500000 values"):
        session.translated_body(body, translation, options, [])
    text = dumps({"a": "[], " * VALUES_MAX})
    _, written = session.translated_body(started_with([text.decode()]), translation, options, [])
    assert text in written


class _Helpers(Helpers):
    """Does jobs at once, and notes them."""

    done: list[Any]

    async def run(self, job: Job, body: bytes, *arguments: Any) -> tuple[Any, bytes | None]:
        self.done.append(job)
        return job(body, *arguments)


@cases("steps, helped", (6, 0), (10, 1))
async def test_light_body_of_heavy_references_is_a_helpers_work(steps: int, helped: int) -> None:
    """Each definition is written out twice within the next."""
    schema: dict[str, Any] = {"type": "object", "$defs": {"a0": {"type": "string"}}}
    for step in range(1, steps):
        both = {name: {"$ref": f"#/$defs/a{step - 1}"} for name in "ab"}
        schema["$defs"][f"a{step}"] = {"type": "object", "properties": both}
    schema["properties"] = {"x": {"$ref": f"#/$defs/a{steps - 1}"}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": schema}}]
    body = dumps({"model": "m", "messages": STATED, "tools": tools})
    assert weight_of(body) == 0
    helpers = _Helpers(OffloadPool(), "a")
    helpers.done = []
    request = ClientRequest(
        chat.read_request(body), protocol="chat", body=body, weight=0, helpers=lambda: helpers
    )
    options = {"model": "u", "stream": False, "max_tokens": 9}
    _, written = await request.run_job(
        session.translated_body,
        translation_between("chat", "native"),
        options,
        [],
        values_max=TRANSLATED_VALUES_MAX,
    )
    assert written is not None
    assert written.count(b'"type":"string"') == 2 ** (steps - 1)
    assert len(helpers.done) == helped


def test_number_of_too_many_digits_is_the_clients_error() -> None:
    assert request_of(b'{"seed":%b}' % (b"9" * 300)) == {"seed": int("9" * 300)}
    with pytest.raises(InvalidRequest, match="digits"):
        request_of(b'{"seed":%b}' % (b"9" * 5000))


def test_weight_counts_what_may_be_values() -> None:
    assert weight_of(b"[" * 1000) == 0
    assert weight_of(b'{"x":"' + b"abcd" * 200_000 + b'"}') < 10
    assert weight_of(b'{"x":"' + b"Hello there. " * 80_000 + b'"}') < 10
    assert weight_of(b"[" + b"[]," * 100_000 + b"[]]") > READ_VALUES_MAX
    assert weight_of(b" " * (3 * 1024 * 1024)) > READ_VALUES_MAX
    # What costs more than its bytes, though it is no value of the body itself.
    for hidden in (b"[]," * 40_000, b"%41" * 40_000, rb"\u005b" * 40_000, b'{"$ref":1}' * 4_000):
        assert weight_of(b'{"x":"d%b"}' % hidden) > TRANSLATED_VALUES_MAX
