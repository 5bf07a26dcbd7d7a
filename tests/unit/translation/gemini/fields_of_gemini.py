"""Every documented field of a native-content request, and where it arrives in other protocols.

The fields are those of the protocol's documentation, preview ones included. A row is as in
`fields_of_chat.py`, for chat-completions, for messages and for responses.
"""

from typing import Any

from tests.unit.translation.gemini.pieces import HI, call, file, inline, model, result, user
from tests.unit.translation.pieces import PDF, PNG

DROPPED = None
SCHEMA = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}
CLIP = {"mimeType": "video/mp4", "data": "AAAA"}


def message_of(part: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [user("hi", part)]}


def modelled(part: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [HI, model("x", part), HI]}


def response_to(**members: Any) -> dict[str, Any]:
    return {"contents": [HI, model(call(id="x")), user(result(id="x", **members))]}


def config(name: str, value: Any) -> dict[str, Any]:
    return {"generationConfig": {name: value}}


def thinking(name: str, value: Any) -> dict[str, Any]:
    return config("thinkingConfig", {name: value})


def function(**members: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": "f", **members}]}]}


def calling(**members: Any) -> dict[str, Any]:
    return {**function(), "toolConfig": {"functionCallingConfig": members}}


FIELDS: list[tuple[Any, ...]] = [
    ("contents", {"contents": [user("ho")]}, 'message = "ho"'),
    (
        "contents.role",
        {"contents": [HI, model("x"), HI]},
        'messages.1.role messages.1.role input.1.role = "assistant"',
    ),
    ("contents.somethingNew", {"contents": [{**HI, "somethingNew": 1}]}, DROPPED),
    (
        "contents.parts.text",
        message_of({"text": "x"}),
        'messages.0.content.1.text messages.0.content.1.text input.0.content.1.text = "x"',
    ),
    (
        "contents.parts.functionResponse",
        {"contents": [HI, model(call(id="x")), user(result(id="x"), result(id="x"))]},
        DROPPED,
    ),
    (
        "contents.parts.thought",
        modelled({"text": "hm", "thought": True}),
        'messages.1.reasoning_content - - = "hm"',
    ),
    (
        "contents.parts.thought",
        {"contents": [HI, model({"text": "hm", "thought": True}, call(id="x", signature="s"))]},
        DROPPED,
    ),
    (
        "contents.parts.thoughtSignature",
        {"contents": [HI, model(call(id="x", signature="s"))]},
        DROPPED,
    ),
    (
        "contents.parts.inlineData",
        message_of(inline("image/png", PNG)),
        'image = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"',
    ),
    (
        "contents.parts.inlineData",
        message_of(inline("application/pdf", PDF)),
        'pdf = "JVBERi0xLjQKJcOkw7zDtsOf"',
    ),
    ("contents.parts.inlineData", message_of({"inlineData": CLIP}), DROPPED),
    (
        "contents.parts.inlineData.displayName",
        message_of(inline("application/pdf", PDF, displayName="a.pdf")),
        'file_name = "a.pdf"',
    ),
    (
        "contents.parts.fileData",
        message_of(file("https://a.example/x.png")),
        "messages.0.content.1.image_url.url messages.0.content.1.source.url "
        'input.0.content.1.image_url = "https://a.example/x.png"',
    ),
    ("contents.parts.fileData", message_of(file("gs://bucket/x.png")), DROPPED),
    (
        "contents.parts.fileData",
        message_of(file("https://generativelanguage.googleapis.com/v1beta/files/x")),
        DROPPED,
    ),
    ("contents.parts.functionCall", modelled(call(id="x")), 'call.name = "f"'),
    (
        "contents.parts.functionCall.willContinue",
        modelled(call(id="x", willContinue=True)),
        DROPPED,
    ),
    (
        "contents.parts.functionCall.partialArgs",
        modelled(call(id="x", partialArgs=[{"jsonPath": "$.a"}])),
        DROPPED,
    ),
    ("contents.parts.functionResponse", response_to(response={"a": 1}), 'result = "{\\"a\\":1}"'),
    (
        "contents.parts.functionResponse.parts",
        response_to(parts=[inline("image/png", PNG)]),
        "messages.3.content.0.image_url.url="
        '"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" '
        'messages.2.content.0.content.1.source.data="iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB" '
        'input.2.output.1.type="input_image"',
    ),
    (
        "contents.parts.functionResponse.response.error",
        response_to(response={"error": "no such city"}),
        "result.error = true",
    ),
    ("contents.parts.functionResponse.willContinue", response_to(willContinue=True), DROPPED),
    ("contents.parts.functionResponse.scheduling", response_to(scheduling="SILENT"), DROPPED),
    ("contents.parts.executableCode", modelled({"executableCode": {"code": "1"}}), DROPPED),
    (
        "contents.parts.codeExecutionResult",
        modelled({"codeExecutionResult": {"output": "1"}}),
        DROPPED,
    ),
    ("contents.parts.toolCall", modelled({"toolCall": {"toolType": "X"}}), DROPPED),
    ("contents.parts.toolResponse", modelled({"toolResponse": {"toolType": "X"}}), DROPPED),
    (
        "contents.parts.mediaResolution",
        message_of(
            {**inline("image/png", PNG), "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}
        ),
        "low_detail",
    ),
    (
        "contents.parts.mediaResolution",
        message_of(
            {**inline("image/png", PNG), "mediaResolution": {"level": "MEDIA_RESOLUTION_MEDIUM"}}
        ),
        DROPPED,
    ),
    *[
        (
            f"contents.parts.{name}",
            message_of({**inline("image/png", PNG), name: {"x": 1}}),
            DROPPED,
        )
        for name in (
            "videoMetadata",
            "partMetadata",
            "mediaProcessing",
            "audioTranscription",
            "speechMetadata",
            "documentMetadata",
            "spreadsheetMetadata",
            "audioMetadata",
        )
    ],
    ("contents.parts.telepathy", message_of({"telepathy": {"x": 1}}), DROPPED),
    ("systemInstruction", {"systemInstruction": {"parts": [{"text": "s"}]}}, 'system = "s"'),
    (
        "systemInstruction.parts",
        {"systemInstruction": {"parts": [inline("image/png", PNG)]}},
        DROPPED,
    ),
    ("tools.functionDeclarations.name", function(), 'tool.name = "f"'),
    ("tools.functionDeclarations.description", function(description="d"), 'tool.description = "d"'),
    (
        "tools.functionDeclarations.parameters",
        function(parameters=SCHEMA),
        "tools.0.function.parameters.required.0 tools.0.input_schema.required.0 "
        'tools.0.parameters.required.0 = "a"',
    ),
    (
        "tools.functionDeclarations.parametersJsonSchema",
        function(parametersJsonSchema={"type": "object"}),
        "parameters",
    ),
    ("tools.functionDeclarations.response", function(response=SCHEMA), DROPPED),
    ("tools.functionDeclarations.responseJsonSchema", function(responseJsonSchema={}), DROPPED),
    ("tools.functionDeclarations.behavior", function(behavior="NON_BLOCKING"), DROPPED),
    *[
        (f"tools.{name}", {"tools": [{name: {}}]}, DROPPED)
        for name in (
            "googleSearch",
            "googleSearchRetrieval",
            "codeExecution",
            "computerUse",
            "urlContext",
            "fileSearch",
            "googleMaps",
            "enterpriseWebSearch",
            "retrieval",
            "mcpServers",
            "parallelAiSearch",
            "exaAiSearch",
        )
    ],
    ("toolConfig.functionCallingConfig", calling(mode="ANY"), "tool_required"),
    (
        "toolConfig.functionCallingConfig.allowedFunctionNames",
        calling(mode="ANY", allowedFunctionNames=["f"]),
        'chosen_tool = "f"',
    ),
    ("toolConfig.functionCallingConfig.mode", calling(mode="VALIDATED"), DROPPED),
    (
        "toolConfig.functionCallingConfig.streamFunctionCallArguments",
        calling(mode="AUTO", streamFunctionCallArguments=True),
        DROPPED,
    ),
    ("toolConfig.retrievalConfig", {"toolConfig": {"retrievalConfig": {"x": 1}}}, DROPPED),
    (
        "toolConfig.includeServerSideToolInvocations",
        {"toolConfig": {"includeServerSideToolInvocations": True}},
        DROPPED,
    ),
    ("safetySettings", {"safetySettings": [{"category": "X"}]}, DROPPED),
    ("cachedContent", {"cachedContent": "cachedContents/x"}, DROPPED),
    ("labels", {"labels": {"a": "b"}}, DROPPED),
    ("store", {"store": True}, DROPPED),
    ("serviceTier", {"serviceTier": "flex"}, DROPPED),
    ("modelArmorConfig", {"modelArmorConfig": {"x": 1}}, DROPPED),
    ("somethingNew", {"somethingNew": 1}, DROPPED),
    ("generationConfig.temperature", config("temperature", 0.5), "temperature = 0.5"),
    ("generationConfig.temperature", config("temperature", 1.5), "temperature_above_1 = 1.5"),
    ("generationConfig.topP", config("topP", 0.5), "top_p = 0.5"),
    ("generationConfig.topK", config("topK", 5), "top_k = 5"),
    ("generationConfig.stopSequences", config("stopSequences", ["x"]), 'stop = "x"'),
    ("generationConfig.seed", config("seed", 5), "seed - - = 5"),
    ("generationConfig.presencePenalty", config("presencePenalty", 1), "presence_penalty = 1"),
    ("generationConfig.frequencyPenalty", config("frequencyPenalty", 1), "frequency_penalty = 1"),
    ("generationConfig.candidateCount", config("candidateCount", 2), DROPPED),
    (
        "generationConfig.responseMimeType",
        config("responseMimeType", "application/json"),
        "json_object",
    ),
    ("generationConfig.responseMimeType", config("responseMimeType", "text/x.enum"), DROPPED),
    ("generationConfig.responseSchema", config("responseSchema", SCHEMA), 'schema.required = "a"'),
    (
        "generationConfig.responseJsonSchema",
        config("responseJsonSchema", SCHEMA),
        'schema.required = "a"',
    ),
    (
        "generationConfig.thinkingConfig.thinkingLevel",
        thinking("thinkingLevel", "HIGH"),
        "effort_high",
    ),
    (
        "generationConfig.thinkingConfig.thinkingBudget",
        thinking("thinkingBudget", 2000),
        "thinking_budget = 2000",
    ),
    (
        "generationConfig.thinkingConfig.includeThoughts",
        thinking("includeThoughts", True),
        '- - reasoning.summary = "auto"',
    ),
    (
        "generationConfig.thinkingConfig.includeThoughts",
        config("thinkingConfig", {"thinkingBudget": 2000, "includeThoughts": True}),
        '- thinking={"type":"enabled","budget_tokens":2000,"display":"summarized"} '
        'reasoning.summary="auto"',
    ),
    ("generationConfig.thinkingConfig.somethingNew", thinking("somethingNew", True), DROPPED),
    *[
        (f"generationConfig.{name}", config(name, value), DROPPED)
        for name, value in {
            "responseModalities": ["TEXT", "IMAGE"],
            "responseLogprobs": True,
            "logprobs": 3,
            "speechConfig": {"x": 1},
            "imageConfig": {"aspectRatio": "1:1"},
            "mediaResolution": "MEDIA_RESOLUTION_LOW",
            "audioTimestamp": True,
            "enableEnhancedCivicAnswers": True,
            "routingConfig": {"x": 1},
            "modelSelectionConfig": {"x": 1},
            "enableAffectiveDialog": True,
            "responseFormat": {"x": 1},
            "translationConfig": {"x": 1},
            "audioTranscriptionConfig": {"x": 1},
            "somethingNew": 1,
        }.items()
    ],
]
