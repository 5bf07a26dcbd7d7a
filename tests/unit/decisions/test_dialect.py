"""Bodies of decisions: what is read, refused, sent on and counted."""

import json
from typing import Any

import pytest

from channels.dialects.decisions import dialect as decisions
from channels.errors import InvalidRequest, UpstreamMalformed
from tests.support.rows import each

PREDICATE = {"type": "predicate", "instructions": "It is good."}
CHOICE = {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}, {"value": True}]}
SCORE = {"type": "score", "instructions": "How?", "levels": [{"label": "low"}, {"label": "high"}]}
PICTURE = {"type": "input_image", "image_url": "https://example.com/a.png"}
MESSAGE = {"role": "user", "content": [{"type": "input_text", "text": "otters"}, PICTURE]}


def written(**members: Any) -> bytes:
    return json.dumps(
        {"model": "m", "input": "otters", "questions": [PREDICATE], **members}
    ).encode()


def test_questions_of_each_type_are_read_and_go_on_as_they_are() -> None:
    questions = [PREDICATE, {**CHOICE, "name": "which"}, {**SCORE, "unknown": 1.50}]
    body = written(input=[MESSAGE], questions=questions, safety_identifier="u")
    read = decisions.read_request(body)
    assert (read.model, read.parameters) == ("m", {"questions": "3"})
    assert read.input_bytes == len(json.dumps([MESSAGE])) + len(json.dumps(questions))
    assert decisions.DIALECT.passthrough_body(read, {"upstream_model": "m"}) is read.object.body
    sent = decisions.DIALECT.passthrough_body(read, {"upstream_model": "v/m"})
    assert sent == body.replace(b'"m"', b'"v/m"', 1)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"input": ""}, "input"),
    ({"input": None}, "input"),
    ({"input": []}, "input"),
    ({"input": [{"role": "assistant", "content": "a"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": []}]}, "input[0].content"),
    ({"questions": []}, "questions"),
    ({"questions": PREDICATE}, "questions"),
    ({"questions": [PREDICATE] * (decisions.QUESTIONS_MAX + 1)}, "questions"),
    ({"questions": [{"instructions": "a"}]}, "questions[0]"),
    ({"questions": [{"type": "essay", "instructions": "a"}]}, "questions[0].type"),
    ({"questions": [{"type": "predicate"}]}, "questions[0].instructions"),
    ({"questions": [PREDICATE, {**CHOICE, "choices": [{"value": "a"}]}]}, "questions[1].choices"),
    (
        {"questions": [{**CHOICE, "choices": [{"value": 7}, {"value": "a"}]}]},
        "questions[0].choices",
    ),
    ({"questions": [{**SCORE, "levels": [{"label": "a"}] * 11}]}, "questions[0].levels"),
    ({"questions": [{"type": "score", "instructions": "a"}]}, "questions[0].levels"),
    ({"Questions": []}, "Questions"),
    ({"model": ""}, "model"),
]


@each("members, param", BAD)
def test_bad_member_is_named(members: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        decisions.read_request(written(**members))
    assert str(raised.value.param).startswith(param)
    assert raised.value.message


def test_tokens_are_those_that_the_response_states() -> None:
    whole = {"answers": [{}], "model": "x", "usage": {"input_tokens": 7, "output_tokens": 9}}
    read = decisions.read_response(json.dumps(whole).encode())
    assert (read.tokens, read.model, read.error) == (7, "x", None)
    assert decisions.read_response(b'{"answers": [{}], "usage": null}').tokens is None
    assert decisions.read_response(b'{"error": {"message": "why"}}').error == "why"
    for body in (b"{}", b"[]", b"", b'{"answers": {}}'):
        with pytest.raises(UpstreamMalformed):
            decisions.read_response(body)
