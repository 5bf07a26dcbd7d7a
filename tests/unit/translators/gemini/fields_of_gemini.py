"""Every documented field of a native-content request, and which targets have no place for it.

The fields are those of the protocol's documentation, preview ones included. A row: the field as the
protocol spells it, a body that has it with a value that is not what happens anyway, and the
protocols for which it must be listed; for the others it must change what is sent.
"""

from __future__ import annotations

from typing import Any

from tests.unit.translators.gemini.pieces import (
    HI,
    PDF,
    PNG,
    call,
    file,
    inline,
    model,
    result,
    user,
)

BOTH = ("chat", "messages")
CHAT = ("chat",)
MESSAGES = ("messages",)
CARRIED: tuple[str, ...] = ()
SCHEMA = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}, "required": ["a"]}
CLIP = {"mimeType": "video/mp4", "data": "AAAA"}

Row = tuple[str, dict[str, Any], tuple[str, ...]]


def said(part: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [user("hi", part)]}


def modelled(part: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [HI, model("x", part), HI]}


def answered(**members: Any) -> dict[str, Any]:
    return {"contents": [HI, model(call(id="x")), user(result(id="x", **members))]}


def config(name: str, value: Any) -> dict[str, Any]:
    return {"generationConfig": {name: value}}


def thinking(name: str, value: Any) -> dict[str, Any]:
    return config("thinkingConfig", {name: value})


def function(**members: Any) -> dict[str, Any]:
    return {"tools": [{"functionDeclarations": [{"name": "f", **members}]}]}


def calling(**members: Any) -> dict[str, Any]:
    return {**function(), "toolConfig": {"functionCallingConfig": members}}


FIELDS: list[Row] = [
    ("contents", {"contents": [user("ho")]}, CARRIED),
    ("contents.role", {"contents": [HI, model("x"), HI]}, CARRIED),
    ("contents.somethingNew", {"contents": [{**HI, "somethingNew": 1}]}, BOTH),
    ("contents.parts.text", said({"text": "x"}), CARRIED),
    ("contents.parts.thought", modelled({"text": "hm", "thought": True}), BOTH),
    (
        "contents.parts.thoughtSignature",
        {"contents": [HI, model(call(id="x", signature="s"))]},
        BOTH,
    ),
    ("contents.parts.inlineData", said(inline("image/png", PNG)), CARRIED),
    ("contents.parts.inlineData", said(inline("application/pdf", PDF)), CARRIED),
    ("contents.parts.inlineData", said({"inlineData": CLIP}), BOTH),
    (
        "contents.parts.inlineData.displayName",
        said(inline("application/pdf", PDF, displayName="a.pdf")),
        CARRIED,
    ),
    ("contents.parts.fileData", said(file("https://a.example/x.png")), CARRIED),
    ("contents.parts.fileData", said(file("gs://bucket/x.png")), BOTH),
    (
        "contents.parts.fileData",
        said(file("https://generativelanguage.googleapis.com/v1beta/files/x")),
        BOTH,
    ),
    ("contents.parts.functionCall", modelled(call(id="x")), CARRIED),
    (
        "contents.parts.functionCall.willContinue",
        modelled(call(id="x", willContinue=True)),
        BOTH,
    ),
    (
        "contents.parts.functionCall.partialArgs",
        modelled(call(id="x", partialArgs=[{"jsonPath": "$.a"}])),
        BOTH,
    ),
    ("contents.parts.functionResponse", answered(response={"a": 1}), CARRIED),
    ("contents.parts.functionResponse.parts", answered(parts=[inline("image/png", PNG)]), CARRIED),
    ("contents.parts.functionResponse.willContinue", answered(willContinue=True), BOTH),
    ("contents.parts.functionResponse.scheduling", answered(scheduling="SILENT"), BOTH),
    ("contents.parts.executableCode", modelled({"executableCode": {"code": "1"}}), BOTH),
    (
        "contents.parts.codeExecutionResult",
        modelled({"codeExecutionResult": {"output": "1"}}),
        BOTH,
    ),
    ("contents.parts.toolCall", modelled({"toolCall": {"toolType": "X"}}), BOTH),
    ("contents.parts.toolResponse", modelled({"toolResponse": {"toolType": "X"}}), BOTH),
    (
        "contents.parts.mediaResolution",
        said({**inline("image/png", PNG), "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}}),
        MESSAGES,
    ),
    (
        "contents.parts.mediaResolution",
        said({**inline("image/png", PNG), "mediaResolution": {"level": "MEDIA_RESOLUTION_MEDIUM"}}),
        BOTH,
    ),
    *[
        (f"contents.parts.{name}", said({**inline("image/png", PNG), name: {"x": 1}}), BOTH)
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
    ("contents.parts.telepathy", said({"telepathy": {"x": 1}}), BOTH),
    ("systemInstruction", {"systemInstruction": {"parts": [{"text": "s"}]}}, CARRIED),
    (
        "systemInstruction.parts",
        {"systemInstruction": {"parts": [inline("image/png", PNG)]}},
        BOTH,
    ),
    ("tools.functionDeclarations.name", function(), CARRIED),
    ("tools.functionDeclarations.description", function(description="d"), CARRIED),
    ("tools.functionDeclarations.parameters", function(parameters=SCHEMA), CARRIED),
    (
        "tools.functionDeclarations.parametersJsonSchema",
        function(parametersJsonSchema={"type": "object"}),
        CARRIED,
    ),
    ("tools.functionDeclarations.response", function(response=SCHEMA), BOTH),
    ("tools.functionDeclarations.responseJsonSchema", function(responseJsonSchema={}), BOTH),
    ("tools.functionDeclarations.behavior", function(behavior="NON_BLOCKING"), BOTH),
    *[
        (f"tools.{name}", {"tools": [{name: {}}]}, BOTH)
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
    ("toolConfig.functionCallingConfig", calling(mode="ANY"), CARRIED),
    (
        "toolConfig.functionCallingConfig.allowedFunctionNames",
        calling(mode="ANY", allowedFunctionNames=["f"]),
        CARRIED,
    ),
    ("toolConfig.functionCallingConfig.mode", calling(mode="VALIDATED"), BOTH),
    (
        "toolConfig.functionCallingConfig.streamFunctionCallArguments",
        calling(mode="AUTO", streamFunctionCallArguments=True),
        BOTH,
    ),
    ("toolConfig.retrievalConfig", {"toolConfig": {"retrievalConfig": {"x": 1}}}, BOTH),
    (
        "toolConfig.includeServerSideToolInvocations",
        {"toolConfig": {"includeServerSideToolInvocations": True}},
        BOTH,
    ),
    ("safetySettings", {"safetySettings": [{"category": "X"}]}, BOTH),
    ("cachedContent", {"cachedContent": "cachedContents/x"}, BOTH),
    ("labels", {"labels": {"a": "b"}}, BOTH),
    ("store", {"store": True}, BOTH),
    ("serviceTier", {"serviceTier": "flex"}, BOTH),
    ("modelArmorConfig", {"modelArmorConfig": {"x": 1}}, BOTH),
    ("somethingNew", {"somethingNew": 1}, BOTH),
    ("generationConfig.temperature", config("temperature", 0.5), CARRIED),
    ("generationConfig.temperature", config("temperature", 1.5), MESSAGES),
    ("generationConfig.topP", config("topP", 0.5), CARRIED),
    ("generationConfig.topK", config("topK", 5), CHAT),
    ("generationConfig.stopSequences", config("stopSequences", ["x"]), CARRIED),
    ("generationConfig.seed", config("seed", 5), MESSAGES),
    ("generationConfig.presencePenalty", config("presencePenalty", 1), MESSAGES),
    ("generationConfig.frequencyPenalty", config("frequencyPenalty", 1), MESSAGES),
    ("generationConfig.candidateCount", config("candidateCount", 2), BOTH),
    ("generationConfig.responseMimeType", config("responseMimeType", "application/json"), MESSAGES),
    ("generationConfig.responseMimeType", config("responseMimeType", "text/x.enum"), BOTH),
    ("generationConfig.responseSchema", config("responseSchema", SCHEMA), CARRIED),
    ("generationConfig.responseJsonSchema", config("responseJsonSchema", SCHEMA), CARRIED),
    ("generationConfig.thinkingConfig.thinkingLevel", thinking("thinkingLevel", "HIGH"), CARRIED),
    ("generationConfig.thinkingConfig.thinkingBudget", thinking("thinkingBudget", 2000), CHAT),
    ("generationConfig.thinkingConfig.includeThoughts", thinking("includeThoughts", True), BOTH),
    ("generationConfig.thinkingConfig.somethingNew", thinking("somethingNew", True), BOTH),
    *[
        (f"generationConfig.{name}", config(name, value), BOTH)
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
