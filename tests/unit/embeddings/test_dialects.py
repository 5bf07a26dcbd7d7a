"""Bodies of embeddings in both forms: what is read, refused, sent on and counted."""

import json
from typing import Any

import pytest

from channels.dialects.embeddings import dialect as embeddings
from channels.dialects.native_embeddings import dialect as native
from channels.errors import InvalidRequest, UpstreamMalformed
from tests.support.rows import each

CONTENT = {"parts": [{"text": "dams"}]}


def written(**members: Any) -> bytes:
    return json.dumps(members).encode()


INPUTS = [
    ("otters", 8, None, "1"),
    (["otters", "dams"], 18, None, "2"),
    ([5, 6, 7], 9, 3, "1"),
    ([[5, 6], [7]], 13, 3, "2"),
]


@each("given, size, tokens, inputs", INPUTS)
def test_input_is_texts_or_tokens(given: Any, size: int, tokens: int | None, inputs: str) -> None:
    read = embeddings.read_request(written(model="m", input=given, dimensions=8, user="u"))
    assert (read.model, read.input_bytes, read.tokens) == ("m", size, tokens)
    assert read.parameters == {"dimensions": "8", "inputs": inputs}


BAD = [
    ({}, "input"),
    ({"input": ""}, "input"),
    ({"input": []}, "input"),
    ({"input": None}, "input"),
    ({"input": 7}, "input"),
    ({"input": ["a", 7]}, "input"),
    ({"input": ["a", [7]]}, "input"),
    ({"input": [7, [7]]}, "input"),
    ({"input": [[7], []]}, "input"),
    ({"input": [[]]}, "input"),
    ({"input": [-1]}, "input[0]"),
    ({"input": [[1, 2.5]]}, "input[0][1]"),
    ({"input": [{"text": "a"}]}, "input[0]"),
    ({"input": ["a"] * (embeddings.INPUTS_MAX + 1)}, "input"),
    ({"input": "a", "dimensions": 0}, "dimensions"),
    ({"input": "a", "dimensions": "8"}, "dimensions"),
    ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
    ({"input": "a", "Input": "b"}, "Input"),
    ({"input": "a", "model": ""}, "model"),
    ({"input": "a", "user": 7}, "user"),
]


@each("members, param", BAD)
def test_bad_member_is_named(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        embeddings.read_request(written(**{"model": "m", **members}))
    assert raised.value.param == param
    assert raised.value.message


def test_only_the_model_is_changed() -> None:
    body = b'{"input": ["a"],  "model":"m", "x": 1.50}'
    read = embeddings.read_request(body)
    assert embeddings.DIALECT.passthrough_body(read, {"upstream_model": "m"}) is read.object.body
    sent = embeddings.DIALECT.passthrough_body(read, {"upstream_model": "v/m"})
    assert sent == b'{"input": ["a"],  "model":"v/m", "x": 1.50}'


STATED = [
    ({"prompt_tokens": 7, "total_tokens": 9}, 7),
    ({"input_tokens": 9, "output_tokens": 0}, 9),
    ({"total_tokens": 9}, 9),
    ({"prompt_tokens": None, "total_tokens": 0}, 0),
    ({"prompt_tokens": "7"}, 7),  # as counts are read everywhere
    ({"prompt_tokens": -7}, None),
    ([], None),
    (None, None),
]


@each("usage, tokens", STATED)
def test_tokens_are_those_that_the_response_states(usage: Any, tokens: int | None) -> None:
    read = embeddings.read_response(written(data=[{}], usage=usage, model="x"))
    assert (read.tokens, read.model, read.error) == (tokens, "x", None)


def test_number_that_is_none_costs_no_vector() -> None:
    body = b'{"data": [{"embedding": [NaN, 1]}], "usage": {"prompt_tokens": 7}}'
    assert embeddings.read_response(body).tokens == 7


def test_response_without_vectors_is_its_error_or_none() -> None:
    failed = written(error={"message": "It says why."})
    assert embeddings.read_response(failed).error == "It says why."
    assert native.read_response(failed).error == "It says why."
    for body in (b"{}", b"[]", b"", b"<html>", written(data={}), written(embedding=[])):
        for reading in (embeddings.read_response, native.read_response):
            with pytest.raises(UpstreamMalformed):
                reading(body)


def test_native_form_has_one_content_or_several() -> None:
    one = native.read_request(
        written(content=CONTENT, taskType="RETRIEVAL_QUERY", outputDimensionality=8),
        model="m",
        is_batch=False,
    )
    assert (one.model, one.input_bytes, one.tokens) == ("m", len(json.dumps(CONTENT)), None)
    assert one.parameters == {
        "taskType": "RETRIEVAL_QUERY",
        "outputDimensionality": "8",
        "inputs": "1",
    }
    requests = [{"model": "models/m", "content": CONTENT}, {"content": CONTENT}]
    several = native.read_request(written(requests=requests), model="m", is_batch=True)
    assert several.parameters == {"inputs": "2"}
    assert several.input_bytes == len(json.dumps(requests))


NATIVE_BAD = [
    (False, {}, "content"),
    (False, {"content": "a"}, "content"),
    (False, {"content": CONTENT, "model": "models/other"}, "model"),
    (False, {"content": CONTENT, "Content": CONTENT}, "Content"),
    (True, {}, "requests"),
    (True, {"requests": []}, "requests"),
    (True, {"requests": {"content": CONTENT}}, "requests"),
    (True, {"requests": [{}]}, "requests[0].content"),
    (True, {"requests": [{"content": CONTENT}, {"content": 7}]}, "requests[1].content"),
    (True, {"requests": [{"content": CONTENT, "model": "models/other"}]}, "model"),
    (True, {"requests": [{"content": CONTENT, "MODEL": "m"}]}, "requests[0].MODEL"),
    (True, {"requests": [{"content": CONTENT}] * (embeddings.INPUTS_MAX + 1)}, "requests"),
]


@each("is_batch, members, param", NATIVE_BAD)
def test_bad_native_member_is_named(is_batch: bool, members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        native.read_request(written(**members), model="m", is_batch=is_batch)
    assert raised.value.param == param


def test_member_that_is_there_twice_is_refused_in_each_request() -> None:
    body = b'{"requests":[{"content":{},"model":"m","model":"x"}]}'
    with pytest.raises(InvalidRequest) as raised:
        native.read_request(body, model="m", is_batch=True)
    assert str(raised.value.param).startswith("requests[0]")


def test_native_model_is_changed_wherever_the_body_repeats_it() -> None:
    body = b'{"requests": [{"model": "models/m", "content": {}}, {"content": {}, "model":null}]}'
    read = native.read_request(body, model="m", is_batch=True)
    assert native.DIALECT.passthrough_body(read, {"upstream_model": "m"}) is read.object.body
    sent = native.DIALECT.passthrough_body(read, {"upstream_model": "g"})
    assert json.loads(sent)["requests"][0]["model"] == "models/g"
    assert json.loads(sent)["requests"][1] == {"content": {}, "model": None}
    one = native.read_request(b'{"content":{},"model":"m"}', model="m", is_batch=False)
    sent = native.DIALECT.passthrough_body(one, {"upstream_model": "g"})
    assert sent == b'{"content":{},"model":"g"}'


def test_native_tokens_are_those_of_the_metadata() -> None:
    stated = {"promptTokenCount": 5}
    assert native.read_response(written(embedding={}, usageMetadata=stated)).tokens == 5
    assert native.read_response(written(embeddings=[{}])).tokens is None
