"""The responses wire: items, numbered events, the terminal event with usage."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import pytest

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Reply, ask

TOOLS = [
    {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
    for name in ("weather", "news")
]


def responses(**options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, "responses", **options)

    return run(one())


def names(reply: Reply) -> list[str]:
    """The event names without the common prefix, repeated deltas once."""
    found: list[str] = []
    for name, data in reply.events:
        assert name == data["type"]
        short = name.removeprefix("response.")
        if not found or found[-1] != short:
            found.append(short)
    return found


def test_plain_answer_has_the_shape() -> None:
    body = responses(text="the tide is low", instructions="be brief").json
    assert body["id"].startswith("resp_")
    assert (body["object"], body["status"], body["error"]) == ("response", "completed", None)
    assert body["instructions"] == "be brief"
    (item,) = body["output"]
    assert (item["type"], item["role"], item["status"]) == ("message", "assistant", "completed")
    assert item["content"][0]["type"] == "output_text"
    assert item["content"][0]["text"].endswith("the tide is low")
    usage = body["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert usage["input_tokens_details"] == {"cached_tokens": 0}
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}


def test_stream_is_numbered_and_in_order() -> None:
    reply = responses(stream=True, text="the tide is low")
    assert [data["sequence_number"] for data in reply.data] == list(range(len(reply.data)))
    assert names(reply) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert b"[DONE]" not in reply.body


def test_stream_usage_is_on_the_last_event_only() -> None:
    reply = responses(stream=True, text="the tide is low")
    created, last = reply.data[0]["response"], reply.data[-1]["response"]
    assert (created["status"], created["usage"], created["output"]) == ("in_progress", None, [])
    assert last == responses(sim={"text": last["output"][0]["content"][0]["text"]}).json | {
        name: last[name] for name in ("id", "created_at", "output", "usage")
    }
    text = "".join(
        data["delta"] for data in reply.data if data["type"] == "response.output_text.delta"
    )
    assert text == last["output"][0]["content"][0]["text"]
    assert last["usage"]["output_tokens"] > 0
    assert created["id"] == last["id"]


def test_function_calls_stream_as_items_of_their_own() -> None:
    reply = responses(stream=True, tools=TOOLS)
    assert names(reply) == [
        "created",
        "in_progress",
        *(
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
        )
        * 2,
        "completed",
    ]
    items = reply.data[-1]["response"]["output"]
    assert [item["type"] for item in items] == ["function_call"] * 2
    assert [item["name"] for item in items] == ["weather", "news"]
    for index, item in enumerate(items):
        deltas = [
            data["delta"]
            for data in reply.data
            if data["type"] == "response.function_call_arguments.delta"
            and data["output_index"] == index
        ]
        assert "".join(deltas) == item["arguments"] == '{"city":"hello out there"}'
        assert item["call_id"].startswith("call_")
    assert reply.data[-1]["response"]["tools"] == TOOLS


def test_named_tool_is_the_one_called() -> None:
    body = responses(tools=TOOLS, tool_choice={"type": "function", "name": "news"}).json
    assert [item["name"] for item in body["output"]] == ["news"]


def test_tool_output_gets_a_text_answer() -> None:
    items = [
        {"role": "user", "content": "rain?"},
        {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "wet"},
    ]
    (item,) = responses(input=items, tools=TOOLS).json["output"]
    assert "wet" in item["content"][0]["text"]


SEARCH = {"type": "web_search"}
DRAW = {"type": "image_generation", "size": "512x512", "partial_images": 2}


def test_search_is_an_item_before_the_text_that_cites_it() -> None:
    body = responses(tools=[SEARCH], text="who won?").json
    search, message = body["output"]
    assert (search["type"], search["status"]) == ("web_search_call", "completed")
    assert search["action"]["query"] == "who won?"
    (part,) = message["content"]
    (source,) = part["annotations"]
    assert source["type"] == "url_citation"
    assert part["text"][source["start_index"] : source["end_index"]] == part["text"]
    assert source["url"] == search["action"]["sources"][0]["url"]


def test_search_streams_its_states_and_the_source_as_an_annotation() -> None:
    reply = responses(stream=True, tools=[SEARCH])
    assert [data["sequence_number"] for data in reply.data] == list(range(len(reply.data)))
    assert names(reply)[2:] == [
        "output_item.added",
        "web_search_call.in_progress",
        "web_search_call.searching",
        "web_search_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    added = [data["item"] for data in reply.data if data["type"].endswith("item.added")]
    assert [item["status"] for item in added] == ["in_progress"] * 2
    assert "action" not in added[0]
    done = [data["item"] for data in reply.data if data["type"].endswith("item.done")]
    assert done == reply.data[-1]["response"]["output"]


def test_picture_is_a_png_with_drafts_before_it() -> None:
    reply = responses(stream=True, tools=[DRAW], sim={"image_bytes": 5000, "text": "Here."})
    assert names(reply)[2:9] == [
        "output_item.added",
        "image_generation_call.in_progress",
        "image_generation_call.generating",
        "image_generation_call.partial_image",
        "image_generation_call.completed",
        "output_item.done",
        "output_item.added",
    ]
    drafts = [data for data in reply.data if data["type"].endswith("partial_image")]
    assert [draft["partial_image_index"] for draft in drafts] == [0, 1]
    picture, message = reply.data[-1]["response"]["output"]
    assert (picture["type"], picture["size"]) == ("image_generation_call", "512x512")
    image = base64.b64decode(picture["result"])
    assert image.startswith(b"\x89PNG")
    assert len(image) >= 5000
    assert zlib.crc32(image[-8:-4]) == int.from_bytes(image[-4:], "big")
    assert message["content"][0]["text"] == "Here."


def test_built_in_tools_run_beside_functions_unless_another_choice_is_made() -> None:
    def kinds(choice: Any) -> list[str]:
        offered = [SEARCH, DRAW, TOOLS[0]]
        return [
            item["type"] for item in responses(tools=offered, tool_choice=choice).json["output"]
        ]

    search, draw = "web_search_call", "image_generation_call"
    assert kinds("auto") == [search, draw, "function_call"]
    assert kinds("none") == ["message"]
    assert kinds({"type": "function", "name": "weather"}) == ["function_call"]
    assert kinds({"type": "web_search"}) == [search, "message"]


def test_images_in_the_input_are_accepted() -> None:
    parts = [
        {"type": "input_text", "text": "what is this"},
        {"type": "input_image", "image_url": "https://images.invalid/cat.png"},
    ]
    body = responses(input=[{"role": "user", "content": parts}]).json
    assert body["output"][0]["content"][0]["text"].endswith("what is this")


def test_reasoning_is_an_item_before_the_message() -> None:
    body = responses(reasoning={"effort": "low"}).json
    assert [item["type"] for item in body["output"]] == ["reasoning", "message"]
    assert body["usage"]["output_tokens_details"]["reasoning_tokens"] == 32
    reply = responses(stream=True, reasoning={"effort": "low"})
    added = [data for data in reply.data if data["type"] == "response.output_item.added"]
    assert [data["output_index"] for data in added] == [0, 1]


def test_token_maximum_leaves_it_incomplete() -> None:
    reply = responses(stream=True, text="x" * 100, max_output_tokens=4)
    name, data = reply.events[-1]
    assert name == "response.incomplete"
    assert data["response"]["status"] == "incomplete"
    assert data["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert data["response"]["usage"]["output_tokens"] == 4


@pytest.mark.parametrize(
    "members", [{"input": "hello"}, {"input": []}, {"previous_response_id": "resp_1"}]
)
def test_refused_inputs_are_a_400(members: dict[str, Any]) -> None:
    reply = responses(**members)
    assert reply.status == 400
    assert reply.json["error"]["type"] == "invalid_request_error"
