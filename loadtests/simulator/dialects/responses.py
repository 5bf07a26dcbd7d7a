"""The responses wire: output items, and a stream of named, numbered events.

The number of an event is its place in the stream. There is no `[DONE]`: the stream ends with
`response.completed` or `response.incomplete`, the only event with usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from loadtests.simulator.ask import (
    Ask,
    Picture,
    Refusal,
    Tool,
    content_of,
    content_text,
    decoder_of,
    effort_tokens,
    given,
    many,
    offer,
    shape,
    size_of,
    tokens_of,
)
from loadtests.simulator.completions import ECHO_CHARS, Call, Completion, Tokens
from loadtests.simulator.dialects.base import (
    Dialect,
    Stream,
    argument_pieces,
    decode,
    encode,
    error_type,
    named,
)
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.files import png_base64

SOURCE = "https://news.invalid/"
PROOF: Final = "c2ltdWxhdGVkLXByb29m"  # opaque to clients, who must send it back

Item = dict[str, Any]


def output_items(ask: Ask, response: Completion) -> list[Item]:
    """All items of a finished answer."""
    items: list[Item] = []
    if response.thinking or (response.usage is not None and response.usage.reasoning > 0):
        items.append(_reasoning_item(ask, response))
    if ask.searches and not response.is_withheld:
        items.append(_search_item(ask, response))
    if ask.picture is not None and not (response.is_withheld or response.is_declined):
        items.append(_picture_item(ask, response, ask.picture))
    if response.speaks:
        items.append(_message_item(ask, response))
    items.extend(_call_item(call) for call in response.calls)
    return items


def _search_item(ask: Ask, response: Completion) -> Item:
    query, source = ask.text[:ECHO_CHARS], {"type": "url", "url": _source(response)}
    requested = {"type": "search", "query": query, "queries": [query], "sources": [source]}
    return _item("web_search_call", f"ws_{response.id[:48]}", action=requested)


def _picture_item(ask: Ask, response: Completion, picture: Picture) -> Item:
    return _item(
        "image_generation_call",
        f"ig_{response.id[:48]}",
        action="generate",
        background="opaque",
        output_format="png",
        quality="medium",
        revised_prompt=ask.text[:ECHO_CHARS],
        size=picture.size,
        result=png_base64(response.image_bytes),
    )


def _message_item(ask: Ask, response: Completion) -> Item:
    cited = {"type": "url_citation", "start_index": 0, "end_index": len(response.text)}
    cited |= {"title": "All the news there is", "url": _source(response)}
    part: Item = {"type": "output_text", "logprobs": [], "text": response.text}
    part["annotations"] = [cited] if ask.searches and response.text else []
    if response.is_declined:
        part = {"type": "refusal", "refusal": response.text}
    return _item("message", f"msg_{response.id[:48]}", content=[part], role="assistant")


def _reasoning_item(ask: Ask, response: Completion) -> Item:
    summary = [{"type": "summary_text", "text": response.thinking}] if response.thinking else []
    item: Item = {"id": f"rs_{response.id[:48]}", "type": "reasoning", "summary": summary}
    if ask.proves_reasoning:
        item["encrypted_content"] = PROOF
    return item


def _call_item(call: Call) -> Item:
    result = {"arguments": call.arguments, "call_id": call.id("call_"), "name": call.name}
    return _item("function_call", f"fc_{call.token}", **result)


def _item(kind: str, item_id: str, **members: Any) -> Item:
    return {"id": item_id, "type": kind, "status": "completed", **members}


def _source(response: Completion) -> str:
    return f"{SOURCE}{response.id[:12]}"


# What an item has not yet when it begins.
EMPTY: Final[Mapping[str, Item]] = {
    "message": {"content": []},
    "reasoning": {"summary": []},
    "image_generation_call": {"result": None},
    "function_call": {"arguments": ""},
    "web_search_call": {},
}


class EventWriter:
    """Frames with rising numbers.

    `text_end` is the index after the last text delta; without any, where the message would begin.
    """

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.text_end = 0
        self.message_place: Item = {"item_id": "msg_none", "output_index": 0, "content_index": 0}

    def put(self, event: str, data: Item) -> None:
        """One event under its number."""
        numbered = {"sequence_number": len(self.frames), **data}
        self.frames.append(named(f"response.{event}", numbered))

    def items(self, ask: Ask, response: Completion) -> None:
        """The events of all items."""
        self.text_end = len(self.frames)
        for output, item in enumerate(output_items(ask, response)):
            place, at = {"item_id": item["id"], "output_index": output}, {"output_index": output}
            begun = {**item, **EMPTY[item["type"]]}
            if "status" in item:
                begun["status"] = "in_progress"
            if item["type"] == "web_search_call":
                del begun["action"]
            self.put("output_item.added", {**at, "item": begun})
            if item["type"] == "message":
                self._message({**place, "content_index": 0}, item["content"][0], response.deltas)
            else:
                for event, data in _events_of(item, ask):
                    self.put(event, {**place, **data})
            self.put("output_item.done", {**at, "item": item})
            if item["type"] not in ("message", "function_call"):
                self.text_end = len(self.frames)

    def _message(self, place: Item, part: Item, deltas: Sequence[str]) -> None:
        self.message_place = place
        is_text = part["type"] == "output_text"
        kind, member = ("output_text", "text") if is_text else ("refusal", "refusal")
        more: Item = {"logprobs": []} if is_text else {}
        empty: Item = {"annotations": []} if is_text else {}
        self.put("content_part.added", {**place, "part": {**part, member: "", **empty}})
        for piece in deltas:
            self.put(f"{kind}.delta", {**place, "delta": piece, **more})
        self.text_end = len(self.frames)
        for index, source in enumerate(part.get("annotations", ())):
            cited = {**place, "annotation_index": index, "annotation": source}
            self.put("output_text.annotation.added", cited)
        self.put(f"{kind}.done", {**place, member: part[member], **more})
        self.put("content_part.done", {**place, "part": part})


def _events_of(item: Item, ask: Ask) -> Iterator[tuple[str, Item]]:
    """What comes between the beginning and the end of an item that is no message."""
    match item["type"]:
        case "reasoning":  # the summary comes in parts of its own
            for index, part in enumerate(item["summary"]):
                inner = {"summary_index": index}
                yield "reasoning_summary_part.added", {**inner, "part": {**part, "text": ""}}
                yield "reasoning_summary_text.delta", {**inner, "delta": part["text"]}
                yield "reasoning_summary_text.done", {**inner, "text": part["text"]}
                yield "reasoning_summary_part.done", {**inner, "part": part}
        case "web_search_call":
            yield from ((f"web_search_call.{state}", {}) for state in SEARCH_STATES)
        case "image_generation_call":
            yield "image_generation_call.in_progress", {}
            yield "image_generation_call.generating", {}
            shown = {name: item[name] for name in SHOWN}
            for index in range(ask.picture.partial_images if ask.picture is not None else 0):
                draft = {"partial_image_index": index, "partial_image_b64": png_base64()}
                yield "image_generation_call.partial_image", {**draft, **shown}
            yield "image_generation_call.completed", {}
        case "function_call":
            for piece in argument_pieces(item["arguments"]):
                yield "function_call_arguments.delta", {"delta": piece}
            yield "function_call_arguments.done", {"arguments": item["arguments"]}


SEARCH_STATES: Final = ("in_progress", "searching", "completed")
SHOWN: Final = ("background", "output_format", "quality", "size")  # of a picture's drafts
_DRAW = "image_generation"
_SEARCH = "web_search"  # and a version behind it


_Item = shape(type=str | None, role=str | None, content=msgspec.Raw, output=msgspec.Raw)
_Tool = shape(
    type=str,
    name=str | None,
    size=str | None,
    partial_images=Annotated[int, msgspec.Meta(ge=0, le=3)] | None,
    parameters=msgspec.Raw,
)
_Format = shape(type=str, schema=msgspec.Raw)
_Request = shape(
    model=str,
    input=str | many(_Item),
    instructions=str | None,
    stream=bool | None,
    max_output_tokens=int | None,
    temperature=float | None,
    top_p=float | None,
    reasoning=shape(effort=str | None, summary=str | None) | None,
    tools=many(_Tool) | None,
    tool_choice=str | shape(type=str, name=str | None) | None,
    parallel_tool_calls=bool | None,
    include=list[str] | None,
    previous_response_id=str | None,
    prompt_cache_key=str | None,
    text=shape(format=_Format | None) | None,
    sim=msgspec.Raw,
)


_decoder = decoder_of(_Request)


def _read_last_turn(ask: Ask, items: list[Any]) -> None:
    if items[-1].type == "function_call_output":
        ask.tool_result = content_text(items[-1].output)
    for item in reversed(items):
        if item.role == "user":
            ask.text = content_text(item.content)
            return


def _read_tools(ask: Ask, request: Any) -> None:
    functions = [tool for tool in request.tools or () if tool.type == "function" and tool.name]
    choice = request.tool_choice
    if hasattr(choice, "type") and choice.type.startswith((_DRAW, _SEARCH)):
        functions = []
    _read_builtin(ask, request)
    offer(
        ask,
        (Tool(name=tool.name or "", schema=bytes(tool.parameters)) for tool in functions),
        chosen=choice.name if hasattr(choice, "type") else None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )


def _read_builtin(ask: Ask, request: Any) -> None:
    """All that are offered run, unless another choice is made."""
    choice = request.tool_choice
    for tool in request.tools or ():
        if choice == "none" or (hasattr(choice, "type") and choice.type != tool.type):
            continue
        if tool.type == _DRAW:
            ask.picture = Picture(
                size=tool.size or "1024x1024", partial_images=tool.partial_images or 0
            )
        elif tool.type.startswith(_SEARCH):
            ask.searches = True


def _echoed(request: Any, body: bytes) -> dict[str, Any]:
    repeated = msgspec.json.decode(body) if request.tools or request.text else {}
    effort = request.reasoning.effort if request.reasoning is not None else None
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "reasoning": {"effort": effort, "summary": None},
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": repeated.get("text", {"format": {"type": "text"}}),
        "tool_choice": repeated.get("tool_choice", "auto"),
        "tools": repeated.get("tools", []),
        "top_p": 1.0 if request.top_p is None else request.top_p,
    }


INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesDialect(Dialect):
    """`POST /v1/responses`."""

    name = "responses"

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_decoder, exchange.body)
        items = request.input
        if isinstance(items, str):
            raise Refusal(400, "Input must be a list.")
        if not items:
            raise Refusal(400, "Invalid 'input': empty array. Expected at least one item.")
        if request.previous_response_id is not None:
            raise Refusal(400, "Previous responses are not stored here: 'previous_response_id'.")
        effort = request.reasoning.effort if request.reasoning is not None else None
        ask = Ask(
            model=request.model,
            stream=bool(request.stream),
            input_tokens=tokens_of(
                sum(size_of(item.content) + size_of(item.output) for item in items)
            ),
            max_tokens=request.max_output_tokens,
            reasoning_tokens=effort_tokens(effort),
            reads_cache=request.prompt_cache_key is not None,
            sim=given(request.sim),
            echoed=_echoed(request, exchange.body),
        )
        with content_of("input[].content"):
            _read_last_turn(ask, items)
        if request.reasoning is not None and request.reasoning.summary is not None:
            ask.shows_reasoning = True
        ask.proves_reasoning = "reasoning.encrypted_content" in (request.include or ())
        if request.text is not None and request.text.format is not None:
            ask.wants_json = request.text.format.type != "text"
            ask.json_schema = bytes(request.text.format.schema)
        if request.tools:
            _read_tools(ask, request)
        return ask

    def plain(self, ask: Ask, response: Completion) -> bytes:
        return encode(_finished(ask, response))

    def stream(self, ask: Ask, response: Completion) -> Stream:
        writer = EventWriter()
        opening = {"response": _response(ask, response, status="in_progress", output=[])}
        writer.put("created", opening)
        writer.put("in_progress", opening)
        writer.items(ask, response)
        whole = _finished(ask, response)
        writer.put(whole["status"], {"response": whole})
        place = writer.message_place
        return Stream(
            frames=writer.frames,
            text_end=writer.text_end,
            more=lambda index: named(
                "response.output_text.delta",
                {"sequence_number": index, **place, "delta": "more ", "logprobs": []},
            ),
        )

    def error_frames(self, ask: Ask, response: Completion, index: int, message: str) -> list[bytes]:
        kind, _ = error_type(500)
        result = {"type": kind, "code": kind, "message": message, "param": None}
        failed = _response(ask, response, status="failed", output=[])
        failed["error"] = {"code": kind, "message": message}
        return [
            named("error", {"sequence_number": index, "error": result}),
            named("response.failed", {"sequence_number": index + 1, "response": failed}),
        ]


def _finished(ask: Ask, response: Completion) -> dict[str, Any]:
    """The whole response object, completed, or incomplete with its reason."""
    reason = INCOMPLETE.get(response.finish)
    status = "incomplete" if reason else "completed"
    whole = _response(ask, response, status=status, output=output_items(ask, response))
    whole["incomplete_details"] = {"reason": reason} if reason else None
    whole["usage"] = None
    if response.usage is not None:
        whole["usage"] = response.usage.stated(_usage(response.usage))
        whole = response.usage.around(whole)
    return whole


def _response(
    ask: Ask, response: Completion, *, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": f"resp_{response.id[:48]}",
        "object": "response",
        "created_at": response.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": ask.model,
        "output": output,
        "previous_response_id": None,
        "service_tier": "default",
        "store": False,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **(ask.echoed or {}),
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }


class CompactDialect(ResponsesDialect):
    """`POST /v1/responses/compact`: one item that stands for the conversation."""

    def plain(self, ask: Ask, response: Completion) -> bytes:
        whole = _finished(ask, response)
        item = {
            "type": "compaction",
            "id": f"cmp_{response.id[:24]}",
            "encrypted_content": response.id,
        }
        return encode(
            {
                "id": whole["id"],
                "object": "response.compaction",
                "created_at": whole["created_at"],
                "output": [item],
                "usage": whole["usage"],
            }
        )
