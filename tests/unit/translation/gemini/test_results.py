"""Results of tools that are JSON, as the response of a native-content function."""

from typing import Any

from tests.support.rows import cases
from tests.unit.translation.pieces import USER, call, calls, result
from tests.unit.translation.translated import translated


def response(client: Any, text: str) -> Any:
    """What a native-content upstream gets of a tool's result."""
    body: dict[str, Any] = {"messages": [USER, calls(call("c1")), result("c1", text)]}
    if client == "responses":
        made = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
        output = {"type": "function_call_output", "call_id": "c1", "output": text}
        body = {"input": [USER, made, output]}
    sent, dropped = translated(client, "native", body)
    assert dropped == []
    return sent["contents"][2]["parts"][0]["functionResponse"]["response"]


@cases("client", "chat", "responses")
@cases(
    "text",
    '{"$ref":"#/components/schemas/Pet"}',
    '{"schema":{"properties":{"a":{"$ref":"#/$defs/A"}}}}',
    '{"a": [1, [{"b": {"$ref": null}}]]}',
    '{"\\u0024ref": "x"}',
    '{"output": "done", "metadata": {"exit_code": 0}}',
    '{"error": "no", "code": 1}',
    '{"output": {"a": 1}}',
    "plain",
    "[1]",
    "null",
    '{"mean": NaN}',
    '{"half": "\\ud83d"}',
)
def test_key_with_a_meaning_of_its_own_makes_a_result_text(client: Any, text: str) -> None:
    assert response(client, text) == {"output": text}


@cases("text", '{"a": "$ref", "b": ["#/$defs/A"]}', '{"a": {"output": 1}, "ref": "\\u00e9"}')
def test_other_objects_stay_objects(text: str) -> None:
    assert response("chat", text) != {"output": text}
