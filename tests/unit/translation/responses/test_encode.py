"""What a chat-completions request with built-in tools becomes on a responses channel."""

from typing import Any

from tests.support.rows import cases
from tests.unit.translation.pieces import USER, developer, system
from tests.unit.translation.translated import translated

SEARCH = {"type": "web_search", "search_context_size": "low", "user_location": {"city": "Riga"}}
DRAW = {"type": "image_generation", "size": "1024x1024", "quality": "low"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
WEATHER = {"type": "function", "name": "weather"}
PNG = "data:image/png;base64,iVBORw0KGgoAAAAN"
CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"a":1}'}}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def sent(*messages: dict[str, Any], **members: Any) -> tuple[dict[str, Any], list[str]]:
    """The upstream's body and what was dropped; a web search is asked for."""
    body = {"model": "m", "messages": list(messages) or [user("Hi")], "tools": [SEARCH], **members}
    return translated("chat", "responses", body, stream=True)


def items(*messages: dict[str, Any]) -> Any:
    """The input that these messages become, without loss."""
    body, dropped = sent(*messages)
    assert dropped == []
    return body["input"]


def spoken(role: str, *content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": list(content)}


def message_of(text: str, role: str = "user") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return spoken(role, {"type": kind, "text": text})


def test_tools_stand_beside_each_other_as_they_were_described() -> None:
    body, dropped = sent(tools=[SEARCH, FUNCTION, DRAW, {"type": "web_search_preview"}])
    assert body["tools"] == [
        # Strict is what this protocol takes for granted, and chat-completions does not.
        {**WEATHER, "parameters": SCHEMA, "strict": False},
        SEARCH,
        DRAW,
        {"type": "web_search_preview"},
    ]
    assert dropped == []


def test_function_without_parameters_has_none_to_give() -> None:
    bare = {"type": "function", "function": {"name": "now", "strict": True, "description": "d"}}
    body, _ = sent(tools=[SEARCH, bare])
    assert body["tools"][0] == {
        "type": "function",
        "name": "now",
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
        "strict": True,
    }


@cases("choice, written", ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "function": {"name": "weather"}}, WEATHER),
        ({"type": "web_search"}, {"type": "web_search"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [
                        {"type": "function", "function": {"name": "weather"}},
                        {"type": "web_search"}
                    ]
                }
            },
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [WEATHER, {"type": "web_search"}]
            }
        ))  # fmt: skip
def test_tool_choice(choice: Any, written: Any) -> None:
    body, dropped = sent(tools=[SEARCH, FUNCTION], tool_choice=choice)
    assert body["tool_choice"] == written
    assert dropped == []


def test_instructions_first_and_in_the_middle() -> None:
    body, _ = sent(
        system("Be kind."),
        developer([{"type": "text", "text": "Be brief."}]),
        user("Hi"),
        system("Now be rude."),
        user("Well?"),
    )
    assert body["instructions"] == "Be kind.\n\nBe brief."
    assert body["input"] == [
        message_of("Hi"),
        message_of("Now be rude.", "developer"),
        message_of("Well?"),
    ]


def test_instructions_alone_are_written_as_such() -> None:
    body, _ = sent(system("Greet."))
    assert (body["instructions"], body["input"]) == ("", [message_of("Greet.", "developer")])


def test_a_whole_conversation_with_a_tool() -> None:
    assert items(
        user("Weather?"),
        {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "wet"},
        user("Thanks"),
        {"role": "assistant", "content": None, "refusal": "No."},
        user([{"type": "text", "text": "Why?"}]),
    ) == [
        message_of("Weather?"),
        message_of("Let me see.", "assistant"),
        {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "wet"},
        message_of("Thanks"),
        spoken("assistant", {"type": "refusal", "refusal": "No."}),
        message_of("Why?"),
    ]


def test_image_that_was_drawn_comes_back_as_an_image() -> None:
    drawn = f"Look: ![image]({PNG}) Nice? ![a](https://a.example/b.png) ![b](data:text/plain,x)"
    assert items(user("Draw"), {"role": "assistant", "content": drawn}, user("More"))[1:] == [
        spoken("assistant", {"type": "output_text", "text": "Look: "},
            {"type": "output_text",
             "text": " Nice? ![a](https://a.example/b.png) ![b](data:text/plain,x)"}),
        spoken("user", {"type": "input_image", "image_url": PNG}), message_of("More"),
    ]  # fmt: skip
    alone = items(user("Draw"), {"role": "assistant", "content": f"![image]({PNG})"}, user("More"))
    assert alone[1] == spoken("user", {"type": "input_image", "image_url": PNG})


def test_thinking_goes_back_with_its_proof_and_not_without() -> None:
    details = [
        {
            "type": "reasoning.text",
            "index": 0,
            "format": "openai-responses-v1",
            "text": "Hm.",
            "signature": "gAAA",
        }
    ]
    assistant = {"role": "assistant", "content": "Yes.", "reasoning_details": details}
    assert items(user("Hi"), assistant, user("Sure?"))[1:3] == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gAAA",
        },
        message_of("Yes.", "assistant"),
    ]
    bare = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    body, dropped = sent(user("Hi"), bare, user("Sure?"))
    assert [item.get("role") for item in body["input"]] == ["user", "assistant", "user"]
    assert dropped == ["messages.reasoning_content"]


def test_schema_that_is_not_given_is_any() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n"}}
    body, _ = sent(response_format=form)
    assert body["text"]["format"] == {"type": "json_schema", "name": "n", "schema": {}}


def test_what_happens_anyway_is_not_listed() -> None:
    assert sent(n=1, store=False, logprobs=False, stop=None, modalities=["text"])[1] == []


@cases("maximum, least", (1, 16), (15, 16), (16, 16), (17, 17))
def test_a_maximum_below_the_least_is_the_least(maximum: int, least: int) -> None:
    body = {"messages": [USER], "max_tokens": maximum}
    made, dropped = translated("messages", "responses", body, max_tokens=maximum)
    assert (made["max_output_tokens"], dropped) == (least, [])
