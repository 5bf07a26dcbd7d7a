"""How each client protocol spells what the canonical model holds: for naming what was dropped.

Left the field of `model.py`, right the client's word, dotted and without indices. A field the
protocol has no word for cannot have come from it. Members the model does not hold are named as they
came, in `unsupported.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.translation.model import Media, Protocol

_CHAT = {
    "parallel_tools": "parallel_tool_calls",
    "stop": "stop",
    "count": "n",
    "format": "response_format",
    "format.name": "response_format.json_schema.name",
    "format.description": "response_format.json_schema.description",
    "format.schema": "response_format.json_schema.schema",
    "format.is_strict": "response_format.json_schema.strict",
    "reasoning.effort": "reasoning_effort",
    "reasoning.budget_tokens": "reasoning_effort",
    "reasoning.is_enabled": "reasoning_effort",
    "reasoning.shows_thoughts": "reasoning_effort",
    "tools.name": "tools.function.name",
    "tools.description": "tools.function.description",
    "tools.parameters": "tools.function.parameters",
    "tools.is_strict": "tools.function.strict",
    "tool_choice.allowed": "tool_choice.allowed_tools",
    "turn.role": "messages.role",
    "turn.name": "messages.name",
    "system": "messages",
    "thinking": "messages.reasoning_content",
    "call.arguments": "messages.tool_calls.function.arguments",
    "call.signature": "messages.tool_calls.extra_content",
    "image": "messages.image_url",
    "document": "messages.file",
    "audio": "messages.input_audio",
    "video": "messages.video_url",
    "media.detail": "messages.image_url.detail",
    "media.name": "messages.file.filename",
}

_MESSAGES = {
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "format": "output_config.format",
    "format.is_strict": "output_config.format",
    "format.schema": "output_config.format.schema",
    "reasoning.effort": "output_config.effort",
    "reasoning.budget_tokens": "thinking.budget_tokens",
    "reasoning.is_enabled": "thinking",
    "reasoning.shows_thoughts": "thinking.display",
    "user": "metadata.user_id",
    "tools.name": "tools.name",
    "tools.description": "tools.description",
    "tools.parameters": "tools.input_schema",
    "tools.is_strict": "tools.strict",
    "turn.role": "messages.role",
    "system": "system",
    "thinking": "messages.thinking",
    "call.arguments": "messages.tool_use.input",
    "image": "messages.image",
    "document": "messages.document",
    "media.name": "messages.document.title",
    "is_error": "messages.tool_result.is_error",
}

_NATIVE = {
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
    "media.detail": "contents.parts.mediaResolution",
    "media.name": "contents.parts.inlineData.displayName",
    "is_error": "contents.parts.functionResponse.response.error",
}

_RESPONSES: dict[str, str] = {}

_SPELLINGS: Mapping[Protocol, Mapping[str, str]] = {
    "chat": _CHAT,
    "messages": _MESSAGES,
    "native": _NATIVE,
    "responses": _RESPONSES,
}


def spelled_media(origin: Protocol, media: Media) -> str:
    """The client's word for a medium; one protocol has another for what comes by its address."""
    if origin == "native" and media.url is not None:
        return "contents.parts.fileData"
    return spelled(origin, media.kind)


def spelled(origin: Protocol, field: str) -> str:
    """The client's word for a canonical field; the field's own name where they are the same."""
    return _SPELLINGS[origin].get(field, field)
