"""Random native-content requests, as documented, so that decoding them is the whole truth."""

from typing import Any

from hypothesis import strategies as st

from tests.unit.translation.strategies import (
    base64,
    ids,
    joined,
    json_values,
    maybe,
    names,
    objects,
    words,
)

_texts = st.builds(lambda text, rest: {"text": text, **rest}, words, maybe(partMetadata=objects))
_signed = st.builds(
    lambda text, signature: {"text": text, "thoughtSignature": signature},
    st.one_of(st.just(""), words),
    names,
)
_thoughts = st.builds(
    lambda text, rest: {"text": text, "thought": True, **rest}, words, maybe(thoughtSignature=names)
)
_inline = st.builds(
    lambda data, kind, rest: {"inlineData": {"data": data, "mimeType": kind, **rest}},
    base64,
    st.sampled_from(["image/png", "image/jpg", "application/pdf", "video/mp4"]),
    maybe(displayName=words),
)
_levels = st.sampled_from(["LOW", "MEDIUM", "HIGH"]).map(
    lambda level: {"level": f"MEDIA_RESOLUTION_{level}"}
)
_files = st.builds(
    lambda file, rest: {"fileData": file, **rest},
    st.builds(
        lambda uri, rest: {"fileUri": uri, **rest},
        st.sampled_from(
            ["https://a.example/x.png", "https://a.example/y", "gs://b/x.pdf", "https://youtu.be/x"]
        ),
        maybe(mimeType=st.sampled_from(["image/png", "application/pdf"]), displayName=words),
    ),
    maybe(videoMetadata=objects, mediaResolution=_levels),
)
_code = st.one_of(
    st.builds(lambda code: {"executableCode": {"language": "PYTHON", "code": code}}, words),
    st.builds(lambda text: {"codeExecutionResult": {"outcome": "OK", "output": text}}, words),
    st.builds(lambda value: {"telepathy": {"x": value}}, words),
    st.just({}),
)
_calls = st.builds(
    lambda name, call, part: {"functionCall": {"name": name, **call}, **part},
    st.sampled_from(["f", "g"]) | names,
    maybe(id=ids, args=objects),
    maybe(thoughtSignature=names),
)
_responses = st.one_of(
    objects,
    words.map(lambda text: {"output": text}),
    words.map(lambda text: {"error": text}),
    json_values.map(lambda value: {"output": value}),
    json_values.map(lambda value: {"error": value}),
    st.just({"output": '{"a": 1}'}),
    st.just({"output": '{"output":"x"}'}),
    st.just({}),
)
_results = st.builds(
    lambda name, rest, part: {"functionResponse": {"name": name, **rest}, **part},
    st.sampled_from(["f", "g"]) | names,
    maybe(
        id=ids,
        response=_responses,
        parts=st.lists(_inline, max_size=2),
        scheduling=st.just("SILENT"),
    ),
    maybe(partMetadata=objects),
)
_contents = st.lists(
    st.one_of(
        st.builds(
            lambda parts, role: {"parts": parts, **role},
            st.lists(st.one_of(_texts, _inline, _files, _results), max_size=4),
            maybe(role=st.sampled_from(["user", "function"])),
        ),
        st.builds(
            lambda parts: {"role": "model", "parts": parts},
            st.lists(
                st.one_of(_texts, _signed, _thoughts, _inline, _files, _code, _calls), max_size=5
            ),
        ),
    ),
    min_size=1,
    max_size=5,
)

_schemas = st.recursive(
    st.builds(
        lambda kind, rest: {"type": kind, **rest},
        st.sampled_from(["STRING", "INTEGER", "number", "BOOLEAN"]),
        maybe(
            nullable=st.booleans(),
            description=words,
            format=st.sampled_from(["enum", "int32", "date-time"]),
            minLength=st.just("3"),
            example=words,
        ),
    ),
    lambda inner: (
        st.builds(
            lambda properties, rest: {"type": "OBJECT", "properties": properties, **rest},
            st.dictionaries(names, inner, max_size=3),
            maybe(nullable=st.booleans(), propertyOrdering=st.lists(names, max_size=2)),
        )
        | st.builds(lambda items: {"type": "ARRAY", "items": items}, inner)
        | st.builds(lambda one, two: {"anyOf": [one, two], "nullable": True}, inner, inner)
    ),
    max_leaves=5,
)
_functions = st.builds(
    lambda name, rest: {"name": name, **rest},
    names,
    maybe(
        description=words, parameters=_schemas, behavior=st.just("NON_BLOCKING"), response=_schemas
    )
    | maybe(parametersJsonSchema=objects),
)
_thinking = st.one_of(
    maybe(thinkingLevel=st.sampled_from(["MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH"])),
    maybe(thinkingBudget=st.integers(-1, 9999)),
)
_config = st.builds(
    joined,
    maybe(
        maxOutputTokens=st.integers(1, 9999),
        temperature=st.floats(0, 2),
        topP=st.floats(0, 1),
        topK=st.integers(1, 99),
        stopSequences=st.lists(words, max_size=7),
        seed=st.integers(-(2**40), 2**40),
        candidateCount=st.integers(1, 3),
        presencePenalty=st.floats(-2, 2),
        frequencyPenalty=st.floats(-2, 2),
        thinkingConfig=st.builds(joined, _thinking, maybe(includeThoughts=st.booleans())),
        responseModalities=st.just(["TEXT", "IMAGE"]),
        mediaResolution=st.just("MEDIA_RESOLUTION_LOW"),
        speechConfig=objects,
    ),
    st.one_of(
        maybe(responseMimeType=st.sampled_from(["text/plain", "application/json"])),
        st.builds(
            lambda schema: {"responseMimeType": "application/json", "responseSchema": schema},
            _schemas,
        ),
        st.builds(
            lambda schema: {"responseMimeType": "text/x.enum", "responseSchema": schema}, _schemas
        ),
        objects.map(lambda schema: {"responseJsonSchema": schema}),
    ),
)
_calling = maybe(
    mode=st.sampled_from(["AUTO", "ANY", "NONE", "VALIDATED"]),
    allowedFunctionNames=st.lists(names, max_size=3),
    streamFunctionCallArguments=st.booleans(),
)
gemini_requests: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda contents, rest: {"contents": contents, **rest},
    _contents,
    maybe(
        systemInstruction=st.builds(
            lambda texts: {"parts": texts}, st.lists(_texts, min_size=1, max_size=2)
        ),
        generationConfig=_config,
        tools=st.lists(
            st.one_of(
                st.lists(_functions, min_size=1, max_size=2).map(
                    lambda functions: {"functionDeclarations": functions}
                ),
                st.just({"googleSearch": {}}),
            ),
            max_size=2,
        ),
        toolConfig=maybe(functionCallingConfig=_calling, retrievalConfig=objects),
        safetySettings=st.lists(objects, max_size=2),
        cachedContent=words,
        labels=objects,
    ),
)
