"""What a native-content request may be, and what becomes of it on the way to a channel."""

import json
from typing import Any

from channels.dialects.gemini.request import GeminiRequest
from channels.dialects.gemini.request import read_request as read_gemini_body
from channels.dialects.gemini.request import upstream_body as gemini_upstream
from tests.support.rows import cases
from tests.unit.channels.dialect_bodies import GEMINI, encoded, read_gemini, refused

CONTENTS = b'"contents":[{"role":"user","parts":[{"text":"Hi"}]}]'


def read(body: bytes, *, model: str = "m", stream: bool = False) -> GeminiRequest:
    return read_gemini_body(body, model=model, stream=stream)


def forwarded(body: bytes, *, model: str = "m", most: int | None = None) -> bytes:
    return gemini_upstream(read(body), upstream_model=model, default_max_tokens=most)


def test_model_and_stream_come_with_the_path() -> None:
    request = read(encoded(GEMINI), model="gemini", stream=True)
    assert (request.model, request.stream, request.max_tokens) == ("gemini", True, None)
    assert request.builtin_tools == ()
    assert request.content_bytes == len(json.dumps(GEMINI["contents"]))


@cases(
    "members, expected",
    (b"", b',"generationConfig":{"maxOutputTokens":10}'),
    (b',"generationConfig":null', b',"generationConfig":{"maxOutputTokens":10}'),
    (b',"generationConfig":{ }', b',"generationConfig":{ "maxOutputTokens":10}'),
    (
        b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9"} ',
        b',"generationConfig" : {"topK" : 1.0,\n"x":"\\u00e9","maxOutputTokens":10} ',
    ),
    (
        b',"generationConfig":{"maxOutputTokens": null ,"topK":1}',
        b',"generationConfig":{"maxOutputTokens": 10 ,"topK":1}',
    ),
    (
        b',"generation_config":{"max_output_tokens":null}',
        b',"generation_config":{"max_output_tokens":10}',
    ),
    (b',"generation_config":{}', b',"generation_config":{"maxOutputTokens":10}'),
    (b',"generationConfig":{"maxOutputTokens":7}', b',"generationConfig":{"maxOutputTokens":7}'),
    (
        b',"generation_config":{"max_output_tokens":70000}',
        b',"generation_config":{"max_output_tokens":70000}',
    ),
)
def test_omitted_maximum_is_spliced_into_the_generation_config(
    members: bytes, expected: bytes
) -> None:
    body = b"{" + CONTENTS + b"%b}"
    assert forwarded(body % members, most=10) == body % expected
    assert forwarded(body % members) == body % members


@cases(
    "config, most",
    ({"generationConfig": {"maxOutputTokens": 7}}, 7),
    ({"generationConfig": {"max_output_tokens": 7}}, 7),
    ({"generation_config": {"maxOutputTokens": 7}}, 7),
    ({"generation_config": {"max_output_tokens": 7}}, 7),
    ({"generationConfig": {"maxOutputTokens": None}}, None),
    ({"generationConfig": {}}, None),
    ({"generationConfig": None}, None),
)
def test_maximum_is_read_in_either_spelling(config: dict[str, Any], most: int | None) -> None:
    assert read_gemini(**config).max_tokens == most


@cases(
    "changes, param",
    ({"generationConfig": {}, "generation_config": {}}, "generation_config"),
    (
        {"generationConfig": {"maxOutputTokens": 1, "max_output_tokens": 2}},
        "generationConfig.max_output_tokens",
    ),
    (
        {"generation_config": {"maxOutputTokens": 1, "max_output_tokens": None}},
        "generation_config.max_output_tokens",
    ),
    (
        {"systemInstruction": {"parts": []}, "system_instruction": {"parts": []}},
        "system_instruction",
    ),
)
def test_both_spellings_of_one_member_are_refused(changes: dict[str, Any], param: str) -> None:
    assert refused(lambda: read_gemini(**changes)).param == param


@cases(
    "config",
    b'{"maxOutputTokens":1,"maxOutputTokens":2}',
    b'{"maxOutputTokens":1,"maxOutputToken\\u0073":2}',
)
def test_maximum_that_is_there_twice_is_refused(config: bytes) -> None:
    body = b"{" + CONTENTS + b',"generationConfig":' + config + b"}"
    assert refused(lambda: read(body)).param == "generationConfig.maxOutputTokens"


@cases("named", "m", "models/m")
def test_model_in_the_body_follows_the_one_in_the_path(named: str) -> None:
    body = b'{"model" : %b,' % encoded(named) + CONTENTS + b"}"
    assert forwarded(body) == body
    assert forwarded(body, model="n") == body.replace(encoded(named), encoded(named[:-1] + "n"))


@cases("named", "other", "models/other", "", 7, {})
def test_another_model_in_the_body_is_refused(named: object) -> None:
    assert refused(lambda: read_gemini(model=named)).param == "model"


@cases("model", "", "m" * 257, "a\nb")
def test_path_must_name_a_model(model: str) -> None:
    assert refused(lambda: read(encoded(GEMINI), model=model)).param == "model"


SINGLE: dict[str, Any] = {
    "contents": {"role": "user", "parts": {"text": "Hi"}},
    "systemInstruction": {"parts": {"text": "Be brief."}},
    "tools": {"functionDeclarations": {"name": "f"}, "googleSearch": {}},
}


def test_one_object_in_place_of_an_array_is_forwarded() -> None:
    body = encoded(SINGLE)
    request = read(body)
    assert request.builtin_tools == ("web_search",)
    assert request.content_bytes == len(encoded(SINGLE["contents"]))
    assert request.parameters == {"contents": "1"}
    assert gemini_upstream(request, upstream_model="m", default_max_tokens=None) == body
    assert request.fault is not None
    assert request.fault.param == "contents"
    longer = gemini_upstream(request, upstream_model="m", default_max_tokens=7)
    assert json.loads(longer) == {**SINGLE, "generationConfig": {"maxOutputTokens": 7}}
