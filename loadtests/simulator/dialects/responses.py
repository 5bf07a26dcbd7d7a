"""The responses wire: output items, and a stream of named, numbered events.

The number of an event is its place in the stream. There is no `[DONE]`: the stream ends with
`response.completed` or `response.incomplete`, the only event with usage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec

from loadtests.simulator.answers import ECHO_CHARS, Answer, Call, Tokens
from loadtests.simulator.ask import (
    NULL,
    Ask,
    Picture,
    Refusal,
    Tool,
    content_of,
    content_text,
    effort_tokens,
    given,
    offer,
    size_of,
    tokens_of,
)
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
from loadtests.simulator.film import png_base64

SOURCE = "https://news.invalid/"
PROOF: Final = "c2ltdWxhdGVkLXByb29m"  # opaque to clients, who must send it back

Item = dict[str, Any]


def output_items(ask: Ask, answer: Answer) -> list[Item]:
    """All items of a finished answer."""
    items: list[Item] = []
    if answer.thinking or (answer.usage is not None and answer.usage.reasoning > 0):
        items.append(_reasoning_item(ask, answer))
    if ask.searches and not answer.is_withheld:
        items.append(_search_item(ask, answer))
    if ask.picture is not None and not (answer.is_withheld or answer.is_declined):
        items.append(_picture_item(ask, answer, ask.picture))
    if answer.speaks:
        items.append(_message_item(ask, answer))
    items.extend(_call_item(call) for call in answer.calls)
    return items


def _search_item(ask: Ask, answer: Answer) -> Item:
    query = ask.text[:ECHO_CHARS]
    return {
        "id": f"ws_{answer.id[:48]}",
        "type": "web_search_call",
        "status": "completed",
        "action": {
            "type": "search",
            "query": query,
            "queries": [query],
            "sources": [{"type": "url", "url": _source(answer)}],
        },
    }


def _picture_item(ask: Ask, answer: Answer, picture: Picture) -> Item:
    return {
        "id": f"ig_{answer.id[:48]}",
        "type": "image_generation_call",
        "status": "completed",
        "action": "generate",
        "background": "opaque",
        "output_format": "png",
        "quality": "medium",
        "revised_prompt": ask.text[:ECHO_CHARS],
        "size": picture.size,
        "result": png_base64(answer.image_bytes),
    }


def _message_item(ask: Ask, answer: Answer) -> Item:
    if answer.is_declined:
        part: Item = {"type": "refusal", "refusal": answer.text}
    else:
        annotations = []
        if ask.searches and answer.text:
            annotations.append(
                {
                    "type": "url_citation",
                    "start_index": 0,
                    "end_index": len(answer.text),
                    "title": "All the news there is",
                    "url": _source(answer),
                }
            )
        part = {
            "type": "output_text",
            "annotations": annotations,
            "logprobs": [],
            "text": answer.text,
        }
    return {
        "id": f"msg_{answer.id[:48]}",
        "type": "message",
        "status": "completed",
        "content": [part],
        "role": "assistant",
    }


def _reasoning_item(ask: Ask, answer: Answer) -> Item:
    summary = [{"type": "summary_text", "text": answer.thinking}] if answer.thinking else []
    item: Item = {"id": f"rs_{answer.id[:48]}", "type": "reasoning", "summary": summary}
    if ask.proves_reasoning:
        item["encrypted_content"] = PROOF
    return item


def _call_item(call: Call) -> Item:
    return {
        "id": f"fc_{call.token}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id("call_"),
        "name": call.name,
    }


def _source(answer: Answer) -> str:
    return f"{SOURCE}{answer.id[:12]}"


class EventWriter:
    """Frames with rising numbers.

    `text_end` is the index after the last text delta; without any, where the message would begin.
    `partial_images` is how many drafts of a picture are shown before it.
    """

    def __init__(self, deltas: Sequence[str], *, partial_images: int) -> None:
        self.frames: list[bytes] = []
        self.text_end = 0
        self.message_place: dict[str, Any] = {}
        self._deltas = deltas
        self._partial_images = partial_images

    def put(self, event: str, data: dict[str, Any]) -> None:
        """One event under its number."""
        self.frames.append(named(event, {"sequence_number": len(self.frames), **data}))

    def items(self, items: Sequence[Item]) -> None:
        """The events of all items."""
        self.text_end = len(self.frames)
        self.message_place = {"item_id": "msg_none", "output_index": 0, "content_index": 0}
        for output, item in enumerate(items):
            place = {"item_id": item["id"], "output_index": output}
            self._WRITERS[item["type"]](self, item, place)

    def _begin(self, item: Item, place: dict[str, Any], **empty: Any) -> None:
        begun = {**item, **({"status": "in_progress"} if "status" in item else {}), **empty}
        opening = {"output_index": place["output_index"], "item": begun}
        self.put("response.output_item.added", opening)

    def _end(self, item: Item, place: dict[str, Any]) -> None:
        self.put("response.output_item.done", {"output_index": place["output_index"], "item": item})

    def _message(self, item: Item, place: dict[str, Any]) -> None:
        place = self.message_place = {**place, "content_index": 0}
        (part,) = item["content"]
        is_text = part["type"] == "output_text"
        kind, member = ("output_text", "text") if is_text else ("refusal", "refusal")
        more: dict[str, Any] = {"logprobs": []} if is_text else {}
        sources = part.get("annotations", ())
        empty = {**part, member: "", **({"annotations": []} if is_text else {})}
        self._begin(item, place, content=[])
        self.put("response.content_part.added", {**place, "part": empty})
        for piece in self._deltas:
            self.put(f"response.{kind}.delta", {**place, "delta": piece, **more})
        self.text_end = len(self.frames)
        for index, source in enumerate(sources):
            cited = {**place, "annotation_index": index, "annotation": source}
            self.put("response.output_text.annotation.added", cited)
        self.put(f"response.{kind}.done", {**place, member: part[member], **more})
        self.put("response.content_part.done", {**place, "part": part})
        self._end(item, place)

    def _reasoning(self, item: Item, place: dict[str, Any]) -> None:
        """The summary comes in parts of its own."""
        self._begin(item, place, summary=[])
        for index, part in enumerate(item["summary"]):
            inner = {**place, "summary_index": index}
            opening = {**inner, "part": {**part, "text": ""}}
            self.put("response.reasoning_summary_part.added", opening)
            told = {**inner, "delta": part["text"]}
            self.put("response.reasoning_summary_text.delta", told)
            self.put("response.reasoning_summary_text.done", {**inner, "text": part["text"]})
            self.put("response.reasoning_summary_part.done", {**inner, "part": part})
        self._end(item, place)
        self.text_end = len(self.frames)

    def _search(self, item: Item, place: dict[str, Any]) -> None:
        begun = {name: value for name, value in item.items() if name != "action"}
        self._begin(begun, place)
        for state in ("in_progress", "searching", "completed"):
            self.put(f"response.web_search_call.{state}", place)
        self._end(item, place)
        self.text_end = len(self.frames)

    def _picture(self, item: Item, place: dict[str, Any]) -> None:
        self._begin(item, place, result=None)
        self.put("response.image_generation_call.in_progress", place)
        self.put("response.image_generation_call.generating", place)
        shown = {name: item[name] for name in ("background", "output_format", "quality", "size")}
        for index in range(self._partial_images):
            draft = {"partial_image_index": index, "partial_image_b64": png_base64(), **shown}
            self.put("response.image_generation_call.partial_image", {**place, **draft})
        self.put("response.image_generation_call.completed", place)
        self._end(item, place)
        self.text_end = len(self.frames)

    def _call(self, item: Item, place: dict[str, Any]) -> None:
        self._begin(item, place, arguments="")
        for piece in argument_pieces(item["arguments"]):
            self.put("response.function_call_arguments.delta", {**place, "delta": piece})
        done = {**place, "arguments": item["arguments"]}
        self.put("response.function_call_arguments.done", done)
        self._end(item, place)

    _WRITERS: ClassVar[Mapping[str, Callable[[EventWriter, Item, dict[str, Any]], None]]] = {
        "message": _message,
        "reasoning": _reasoning,
        "web_search_call": _search,
        "image_generation_call": _picture,
        "function_call": _call,
    }


_DRAW = "image_generation"
_SEARCH = "web_search"  # and a version behind it


class _Item(msgspec.Struct):
    type: str | None = None
    role: str | None = None
    content: msgspec.Raw = NULL
    output: msgspec.Raw = NULL


class _Tool(msgspec.Struct):
    type: str
    name: str | None = None
    size: str | None = None
    partial_images: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    parameters: msgspec.Raw = NULL


class _Choice(msgspec.Struct):
    type: str
    name: str | None = None


class _Reasoning(msgspec.Struct):
    effort: str | None = None
    summary: str | None = None


class _Format(msgspec.Struct):
    type: str
    schema: msgspec.Raw = NULL


class _Text(msgspec.Struct):
    format: _Format | None = None


class _Request(msgspec.Struct):
    model: str
    input: str | list[_Item]
    instructions: str | None = None
    stream: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    reasoning: _Reasoning | None = None
    tools: list[_Tool] | None = None
    tool_choice: str | _Choice | None = None
    parallel_tool_calls: bool | None = None
    include: list[str] | None = None
    previous_response_id: str | None = None
    prompt_cache_key: str | None = None
    text: _Text | None = None
    sim: msgspec.Raw = NULL


class _Repeated(msgspec.Struct):
    """Members the answer repeats as they came."""

    tools: msgspec.Raw = msgspec.Raw(b"[]")
    tool_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    text: msgspec.Raw = msgspec.Raw(b'{"format":{"type":"text"}}')


_decoder = msgspec.json.Decoder(_Request)
_repeated = msgspec.json.Decoder(_Repeated)


def read_responses(body: bytes) -> Ask:
    """The request in the common shape; raises Refusal."""
    request = decode(_decoder, body)
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
        input_tokens=tokens_of(sum(size_of(item.content) + size_of(item.output) for item in items)),
        max_tokens=request.max_output_tokens,
        reasoning_tokens=effort_tokens(effort),
        reads_cache=request.prompt_cache_key is not None,
        sim=given(request.sim),
        echoed=_echoed(request, body),
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


def _read_last_turn(ask: Ask, items: list[_Item]) -> None:
    if items[-1].type == "function_call_output":
        ask.tool_result = content_text(items[-1].output)
    for item in reversed(items):
        if item.role == "user":
            ask.text = content_text(item.content)
            return


def _read_tools(ask: Ask, request: _Request) -> None:
    functions = [tool for tool in request.tools or () if tool.type == "function" and tool.name]
    choice = request.tool_choice
    if isinstance(choice, _Choice) and choice.type.startswith((_DRAW, _SEARCH)):
        functions = []
    _read_builtin(ask, request)
    offer(
        ask,
        (Tool(name=tool.name or "", schema=bytes(tool.parameters)) for tool in functions),
        chosen=choice.name if isinstance(choice, _Choice) else None,
        is_forbidden=choice == "none",
        in_parallel=request.parallel_tool_calls is not False,
    )


def _read_builtin(ask: Ask, request: _Request) -> None:
    """All that are offered run, unless another choice is made."""
    choice = request.tool_choice
    for tool in request.tools or ():
        if choice == "none" or (isinstance(choice, _Choice) and choice.type != tool.type):
            continue
        if tool.type == _DRAW:
            ask.picture = Picture(
                size=tool.size or "1024x1024", partial_images=tool.partial_images or 0
            )
        elif tool.type.startswith(_SEARCH):
            ask.searches = True


def _echoed(request: _Request, body: bytes) -> dict[str, Any]:
    repeated = _repeated.decode(body) if request.tools or request.text else _Repeated()
    effort = request.reasoning.effort if request.reasoning is not None else None
    return {
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "reasoning": {"effort": effort, "summary": None},
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": repeated.text,
        "tool_choice": repeated.tool_choice,
        "tools": repeated.tools,
        "top_p": 1.0 if request.top_p is None else request.top_p,
    }


INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesDialect(Dialect):
    """`POST /v1/responses`."""

    name = "responses"

    def read(self, exchange: Exchange) -> Ask:
        return read_responses(exchange.body)

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        return encode(_finished(ask, answer))

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        partial = ask.picture.partial_images if ask.picture is not None else 0
        writer = EventWriter(answer.deltas, partial_images=partial)
        opening = {"response": _response(ask, answer, status="in_progress", output=[])}
        writer.put("response.created", opening)
        writer.put("response.in_progress", opening)
        writer.items(output_items(ask, answer))
        if is_finished:
            whole = _finished(ask, answer)
            writer.put(f"response.{whole['status']}", {"response": whole})
        place = writer.message_place
        return Stream(
            frames=writer.frames,
            text_end=writer.text_end,
            more=lambda index: named(
                "response.output_text.delta",
                {"sequence_number": index, **place, "delta": "more ", "logprobs": []},
            ),
        )

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        kind, _ = error_type(500)
        told = {"type": kind, "code": kind, "message": message, "param": None}
        failed = _response(ask, answer, status="failed", output=[])
        failed["error"] = {"code": kind, "message": message}
        return [
            named("error", {"sequence_number": index, "error": told}),
            named("response.failed", {"sequence_number": index + 1, "response": failed}),
        ]


def _finished(ask: Ask, answer: Answer) -> dict[str, Any]:
    """The whole response object, completed, or incomplete with its reason."""
    reason = INCOMPLETE.get(answer.finish)
    status = "incomplete" if reason else "completed"
    whole = _response(ask, answer, status=status, output=output_items(ask, answer))
    whole["incomplete_details"] = {"reason": reason} if reason else None
    whole["usage"] = None
    if answer.usage is not None:
        whole["usage"] = answer.usage.stated(_usage(answer.usage))
        whole = answer.usage.around(whole)
    return whole


def _response(
    ask: Ask, answer: Answer, *, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id[:48]}",
        "object": "response",
        "created_at": answer.created,
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

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        whole = _finished(ask, answer)
        item = {"type": "compaction", "id": f"cmp_{answer.id[:24]}", "encrypted_content": answer.id}
        return encode(
            {
                "id": whole["id"],
                "object": "response.compaction",
                "created_at": whole["created_at"],
                "output": [item],
                "usage": whole["usage"],
            }
        )
