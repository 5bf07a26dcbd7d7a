"""The four chat protocols, their streams and their counts of tokens, in the reference."""

from __future__ import annotations

from typing import Any

from channels.dialects.chat import members as completions
from channels.dialects.gemini import members as native
from channels.dialects.messages import members as messages
from channels.dialects.responses import members as responses
from channels.family import ErrorShape
from gw import errors
from gw.api.chat.counting import HEADER as TOKEN_COUNT
from gw.api.chat.messages import VERSION_HEADERS
from gw.api.reference import headers
from gw.api.reference.bodies import open_body
from gw.api.reference.operation import (
    EVENTS,
    JSON,
    Content,
    Operation,
    Response,
    answers,
    in_header,
    in_path,
    in_query,
)
from gw.api.reference.schemas import NAME, TEMPLATE
from gw.calls.counting import COUNT_SECONDS

TAG = "Chat"
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_OBJECT = {"type": "object"}
_RAISED = (
    errors.MODEL_NOT_FOUND,
    errors.MODEL_NOT_ALLOWED,
    errors.TOOL_NOT_SUPPORTED,
    errors.QUOTA_EXCEEDED,
    errors.NO_CHANNEL_AVAILABLE,
)
_COUNTED = (errors.MODEL_NOT_FOUND, errors.MODEL_NOT_ALLOWED, errors.NO_CHANNEL_AVAILABLE)
_LIMITS = ("Three channels at most are tried for a request.",)
_CUT = (
    " A stream that ends without its last event was cut, by whatever: nothing marks the fault, and"
    " what was delivered is billed."
)
_MODEL = in_path("model", "The model's id.", "demo-large")


def _open(
    described: str, required: tuple[str, ...], *, name: str, **members: Any
) -> dict[str, Any]:
    """Return the schema of an upstream's object, of which these members are relied on."""
    return {
        NAME: name,
        "type": "object",
        "description": described,
        "required": list(required),
        "properties": members,
        "additionalProperties": True,
    }


def _say(description: str, **schema: Any) -> dict[str, Any]:
    return {"description": description, **schema}


_USAGE = _say(
    "The tokens that are billed.",
    type=["object", "null"],
    properties={
        "prompt_tokens": _say("Of the input.", **_COUNT),
        "completion_tokens": _say("Of the output.", **_COUNT),
        "total_tokens": _say("Both.", **_COUNT),
    },
)
_COMPLETION = _open(
    "A whole response.",
    ("choices",),
    name="ChatCompletion",
    id=_say("Its id.", **_TEXT),
    object=_say("`chat.completion`.", **_TEXT),
    created=_say("When it was made, in Unix seconds.", type="integer"),
    model=_say("The model, as its channel names it.", **_TEXT),
    choices=_say(
        "The answers: `index`, `message` (`role`, `content`), `finish_reason`.",
        type="array",
        items=_OBJECT,
    ),
    usage=_USAGE,
)
_CHUNK = _open(
    "A piece of a response; after the last one `data: [DONE]` ends the stream.",
    ("choices",),
    name="ChatCompletionChunk",
    id=_say("Its id.", **_TEXT),
    object=_say("`chat.completion.chunk`.", **_TEXT),
    model=_say("The model, as its channel names it.", **_TEXT),
    choices=_say("Pieces of the answers: `delta`.", type="array", items=_OBJECT),
    usage=_USAGE,
)
_COMPLETIONS_BODY = open_body(completions.TranslatedChat, name="ChatCompletionsBody")
COMPLETIONS = (
    Operation(
        name="create_chat_completion",
        tag=TAG,
        method="POST",
        summary="Chat by the chat-completions protocol.",
        description="The built-in tools `web_search` and `image_generation` need `stream: true`."
        " With an agent's key `model` is ignored, and the agent's persona, model, tools and"
        f" knowledge bases apply.{_CUT}",
        parameters=(headers.STRICT, *headers.SESSION),
        body=(_COMPLETIONS_BODY,),
        examples={
            "chat-completions": {
                "model": "demo-large",
                "messages": [{"role": "user", "content": "Hello"}],
            },
            "chat-completions, streamed": {
                "model": "demo-large",
                "stream": True,
                "messages": [{"role": "user", "content": "Hello"}],
            },
            "chat-completions, with a web search": {
                "model": "demo-large",
                "stream": True,
                "tools": [{"type": "web_search"}],
                "messages": [{"role": "user", "content": "What is new?"}],
            },
        },
        responses=(
            Response(
                description="The response, with `stream: true` as a stream.",
                contents=(
                    Content(_COMPLETION),
                    Content(_CHUNK, EVENTS, is_stream=True, last="[DONE]"),
                ),
                headers=headers.TRANSLATED,
            ),
        ),
        raises=(*_RAISED, errors.MODEL_NO_VISION, errors.PERMISSION_DENIED),
        timeout="chat",
        limits=_LIMITS,
    ),
)

_VERSION = tuple(
    in_header(name, "The protocol's version; without it the first one. Another is refused.")
    for name in VERSION_HEADERS
)
_MESSAGES_BODY = open_body(messages.TranslatedMessages, name="MessagesBody")
_MESSAGE = _open(
    "A whole response.",
    ("type", "content"),
    name="Message",
    id=_say("Its id.", **_TEXT),
    type=_say("`message`.", **_TEXT),
    role=_say("`assistant`.", **_TEXT),
    model=_say("The model, as its channel names it.", **_TEXT),
    content=_say("Blocks: texts, calls of tools, thoughts.", type="array", items=_OBJECT),
    stop_reason=_say("Why it ended.", type=["string", "null"]),
    usage=_say("The tokens that are billed: `input_tokens`, `output_tokens`.", **_OBJECT),
)
_MESSAGES_EVENT = _open(
    "An event, whose name is its `type`; `message_stop` ends the stream.",
    ("type",),
    name="MessageEvent",
    type=_say("The kind of the event.", **_TEXT),
)
MESSAGES = (
    Operation(
        name="create_message",
        tag=TAG,
        method="POST",
        summary="Chat by the messages protocol.",
        description=f"The gateway keeps no conversation: `thread` is refused.{_CUT}",
        parameters=(*_VERSION, headers.STRICT, *headers.SESSION),
        body=(_MESSAGES_BODY,),
        examples={
            "messages": {
                "model": "demo-large",
                "max_tokens": 200,
                "messages": [{"role": "user", "content": "Hello"}],
            }
        },
        responses=(
            Response(
                description="The response, with `stream: true` as a stream.",
                contents=(Content(_MESSAGE), Content(_MESSAGES_EVENT, EVENTS, is_stream=True)),
                headers=headers.TRANSLATED,
            ),
        ),
        raises=_RAISED,
        timeout="chat",
        limits=_LIMITS,
    ),
)


def _counted(member: str, name: str) -> tuple[Response, ...]:
    body = _open("The count.", (member,), name=name, **{member: _say("The tokens.", **_COUNT)})
    return answers(body, "The tokens of the input.", TOKEN_COUNT)


COUNT_TOKENS = (
    Operation(
        name="count_message_tokens",
        tag=TAG,
        method="POST",
        summary="Count the input tokens of a request of the messages protocol.",
        parameters=(*_VERSION, headers.DATA),
        body=(
            {
                **_MESSAGES_BODY,
                NAME: "CountedMessages",
                "required": [one for one in _MESSAGES_BODY["required"] if one != "max_tokens"],
            },
        ),
        examples={
            "a count": {
                "model": "demo-large",
                "messages": [{"role": "user", "content": "Hello"}],
            }
        },
        responses=_counted("input_tokens", "InputTokens"),
        raises=_COUNTED,
        timeout=COUNT_SECONDS,
    ),
)

_RESPONSES_BODY = open_body(responses.TranslatedResponses, name="ResponsesBody")
_RESPONSE = _open(
    "A whole response.",
    ("output",),
    name="Response",
    id=_say("Its id.", **_TEXT),
    object=_say("`response`.", **_TEXT),
    created_at=_say("When it was made, in Unix seconds.", type="number"),
    status=_say("`completed`, or why it is not.", **_TEXT),
    model=_say("The model, as its channel names it.", **_TEXT),
    output=_say(
        "Items: `message`, `reasoning`, `function_call`, `image_generation_call`.",
        type="array",
        items=_OBJECT,
    ),
    usage=_say("The tokens that are billed.", type=["object", "null"]),
)
_RESPONSES_EVENT = _open(
    "An event, whose name is its `type`; `response.completed` ends the stream.",
    ("type",),
    name="ResponseEvent",
    type=_say("The kind of the event; it begins with `response.`.", **_TEXT),
    sequence_number=_say("It rises from event to event.", type="integer"),
)
RESPONSES = (
    Operation(
        name="create_response",
        tag=TAG,
        method="POST",
        summary="Chat by the responses protocol.",
        description=f"The gateway keeps no conversation: send the whole `input` each time.{_CUT}",
        parameters=(headers.STRICT, *headers.SESSION),
        body=(_RESPONSES_BODY,),
        examples={
            "responses": {
                "model": "demo-large",
                "instructions": "Be brief.",
                "input": [{"role": "user", "content": "Hello"}],
            }
        },
        responses=(
            Response(
                description="The response, with `stream: true` as a stream.",
                contents=(Content(_RESPONSE), Content(_RESPONSES_EVENT, EVENTS, is_stream=True)),
                headers=headers.TRANSLATED,
            ),
        ),
        raises=_RAISED,
        timeout="chat",
        limits=_LIMITS,
    ),
    Operation(
        name="open_responses_socket",
        tag=TAG,
        summary="Open a WebSocket of the responses protocol.",
        description="Each message `response.create` with the members of a request is a call, whose"
        " events are sent as messages. A message may continue the response before it by"
        " `previous_response_id`; what is not kept any more is `previous_response_not_found`.",
        responses=(Response(status=101, description="The connection is a WebSocket now."),),
        shapes=(ErrorShape.GEMINI,),
        raises=(errors.METHOD_NOT_ALLOWED, errors.UPGRADE_REQUIRED),
        billed_by="its messages, each like a POST",
    ),
)
INPUT_TOKENS = (
    Operation(
        name="count_response_tokens",
        tag=TAG,
        method="POST",
        summary="Count the input tokens of a request of the responses protocol.",
        parameters=(headers.DATA,),
        body=(_RESPONSES_BODY,),
        examples={"a count": {"model": "demo-large", "input": "Hello"}},
        responses=_counted("input_tokens", "InputTokens"),
        raises=_COUNTED,
        timeout=COUNT_SECONDS,
    ),
)
COMPACT = (
    Operation(
        name="compact_response",
        tag=TAG,
        method="POST",
        summary="Make one item of a conversation.",
        description="Never a stream, and only on channels of this protocol.",
        parameters=(headers.STRICT, *headers.SESSION),
        body=(_RESPONSES_BODY,),
        examples={
            "a compaction": {
                "model": "demo-large",
                "input": [{"role": "user", "content": "Hello"}],
            }
        },
        responses=answers(_RESPONSE, "The conversation, made shorter."),
        raises=_RAISED,
        timeout="chat",
        limits=_LIMITS,
    ),
)

_NATIVE_BODY = open_body(native.TranslatedGemini, name="NativeContentBody")
_GENERATED = _open(
    "A response, or a piece of one.",
    (),
    name="GeneratedContent",
    candidates=_say(
        "The answers: `content`, `finishReason`, `index`.", type="array", items=_OBJECT
    ),
    usageMetadata=_say(
        "The tokens that are billed: `promptTokenCount`, `candidatesTokenCount`,"
        " `totalTokenCount`.",
        **_OBJECT,
    ),
)
_GENERATED_REF = {"$ref": TEMPLATE.format(name=_GENERATED[NAME])}
_NATIVE_EXAMPLE = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
NATIVE = (
    Operation(
        name="generate_content",
        tag=TAG,
        method="POST",
        verb="generateContent",
        summary="Chat by the native-content protocol.",
        description="Names of members may be spelled `like_this`, too.",
        parameters=(_MODEL, headers.STRICT, *headers.SESSION),
        body=(_NATIVE_BODY,),
        examples={"native-content": _NATIVE_EXAMPLE},
        responses=answers(_GENERATED, "The response.", *headers.TRANSLATED),
        raises=_RAISED,
        timeout="chat",
        limits=_LIMITS,
    ),
    Operation(
        name="stream_generate_content",
        tag=TAG,
        method="POST",
        verb="streamGenerateContent",
        summary="Chat by the native-content protocol, as a stream.",
        description=f"Without `alt=sse` the pieces are the elements of one JSON array.{_CUT}",
        parameters=(
            _MODEL,
            in_query("alt", "`sse`: server-sent events; else one array.", example="sse"),
            headers.STRICT,
            *headers.SESSION,
        ),
        body=(_NATIVE_BODY,),
        examples={"native-content, streamed": _NATIVE_EXAMPLE},
        responses=(
            Response(
                description="The stream.",
                contents=(
                    Content(_GENERATED, EVENTS, is_stream=True),
                    Content({"type": "array", "items": _GENERATED_REF}, JSON),
                ),
                headers=headers.TRANSLATED,
            ),
        ),
        raises=_RAISED,
        timeout="chat",
        limits=_LIMITS,
    ),
)
NATIVE_COUNT = (
    Operation(
        name="count_content_tokens",
        tag=TAG,
        method="POST",
        verb="countTokens",
        summary="Count the input tokens of a request of the native-content protocol.",
        parameters=(_MODEL, headers.DATA),
        body=({**_NATIVE_BODY, NAME: "CountedContent", "required": []},),
        examples={"a count": _NATIVE_EXAMPLE},
        responses=_counted("totalTokens", "TotalTokens"),
        raises=_COUNTED,
        timeout=COUNT_SECONDS,
    ),
)
