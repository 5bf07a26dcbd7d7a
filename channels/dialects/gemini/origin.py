"""What a client of gemini calls the members of a request: for telling what was dropped.

Left the field of `channels/translation/model.py`, right this protocol's word, dotted and without
indices. A field that it has no word for cannot have come from it.
"""

from __future__ import annotations

from channels.families import GEMINI
from channels.translation.model import ClientProtocol

_NAMES = {
    "tool_choice": "toolConfig.functionCallingConfig",
    "tool_choice.allowed": "toolConfig.functionCallingConfig.allowedFunctionNames",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "stop": "generationConfig.stopSequences",
    "seed": "generationConfig.seed",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "presence_penalty": "generationConfig.presencePenalty",
    "count": "generationConfig.candidateCount",
    "format": "generationConfig.responseMimeType",
    "format.name": "generationConfig.responseSchema",
    "format.description": "generationConfig.responseSchema",
    "format.is_strict": "generationConfig.responseSchema",
    "reasoning.effort": "generationConfig.thinkingConfig.thinkingLevel",
    "reasoning.budget_tokens": "generationConfig.thinkingConfig.thinkingBudget",
    "reasoning.is_enabled": "generationConfig.thinkingConfig",
    "reasoning.shows_thoughts": "generationConfig.thinkingConfig.includeThoughts",
    "tools.name": "tools.functionDeclarations.name",
    "tools.description": "tools.functionDeclarations.description",
    "tools.parameters": "tools.functionDeclarations.parameters",
    "turn.role": "contents.role",
    "system": "systemInstruction",
    "thinking": "contents.parts.thought",
    "call.arguments": "contents.parts.functionCall.args",
    "call.signature": "contents.parts.thoughtSignature",
    "image": "contents.parts.inlineData",
    "document": "contents.parts.inlineData",
    "audio": "contents.parts.inlineData",
    "video": "contents.parts.inlineData",
    "media.url": "contents.parts.fileData",
    "media.detail": "contents.parts.mediaResolution",
    "media.name": "contents.parts.inlineData.displayName",
    "is_error": "contents.parts.functionResponse.response.error",
}

# Values that say no more than leaving the member out does.
_NEUTRAL = {
    "safetySettings": [],
    "labels": {},
    "generationConfig.responseModalities": ["TEXT"],
    "generationConfig.responseLogprobs": False,
    "generationConfig.enableEnhancedCivicAnswers": False,
    "generationConfig.audioTimestamp": False,
    "generationConfig.mediaResolution": "MEDIA_RESOLUTION_UNSPECIFIED",
    "toolConfig.functionCallingConfig.streamFunctionCallArguments": False,
    "toolConfig.includeServerSideToolInvocations": False,
    "tools.functionDeclarations.behavior": "BLOCKING",
    "contents.parts.functionResponse.willContinue": False,
}

ORIGIN = ClientProtocol(
    protocol=GEMINI.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    turns="contents",
    parts="contents.parts.",
    tools="tools.functionDeclarations.",
)
