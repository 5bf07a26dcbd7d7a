"""Sources that an upstream states for its text, as the annotations of clients' protocols."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from openai.types.chat.chat_completion_message import Annotation
from openai.types.responses import ResponseOutputText

from channels.dialects.table import CHAT_DIALECTS
from channels.translation.model import Protocol
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import TranslatedCall
from tests.support.rows import cases, each
from tests.unit.translation.translated import data_of, events_from, sse, written

Body = dict[str, Any]
ASKED: dict[str, Body] = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "responses": {"input": "hi"},
}
TEXTS = ("Погода 🌦", " is", " fine.")
# What all upstreams below state: a source of the first text, and two of the last one.
EXPECTED = [("https://a.example", "A", 0, 8), ("https://a.example", "A", 11, 17), ("b", "", 11, 17)]
A, B = {"url": "https://a.example", "title": "A"}, {"url": "b", "title": None}


def located(source: Body) -> Body:
    return {"type": "web_search_result_location", **source, "cited_text": "x"}


DOCUMENT = {"type": "char_location", "document_index": 0, "cited_text": "x"}
LONG = {"url": "x" * 4_097}  # an upstream decides how long it is
SOURCES: Sequence[Sequence[Body]] = (
    [located(A), DOCUMENT, located(LONG)],
    [],
    [located(A), located(B)],
)


def of_messages(*, is_stream: bool) -> list[Body]:
    if not is_stream:
        blocks = [
            {"type": "text", "text": text, "citations": [*cited, *cited] or None}
            for text, cited in zip(TEXTS, SOURCES, strict=True)
        ]
        return [{"type": "message", "content": blocks, "stop_reason": "end_turn"}]
    events: list[Body] = [{"type": "message_start", "message": {"id": "m", "model": "m"}}]
    for index, (text, cited) in enumerate(zip(TEXTS, SOURCES, strict=True)):
        block = {"type": "text", "text": "", "citations": []}
        deltas = [{"type": "citations_delta", "citation": one} for one in cited]
        deltas.insert(1, {"type": "text_delta", "text": text})
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            *({"type": "content_block_delta", "index": index, "delta": one} for one in deltas),
        ]
        if index != 1:  # one of the blocks is never stopped
            events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return [*events, end, {"type": "message_stop"}]


def of_native(*, is_stream: bool) -> list[Body]:
    """In bytes; a source that supports nothing would be one of the whole text."""
    first, second, _ = (len(text.encode()) for text in TEXTS)
    late = {"startIndex": first + second, "endIndex": first + second + len(TEXTS[2])}
    if not is_stream:  # of a part of its own
        late = {"startIndex": 0, "endIndex": len(TEXTS[2]), "partIndex": 3}
    metadata = {
        "groundingChunks": [{"web": {"uri": A["url"], "title": "A"}}, {"maps": {"uri": "b"}}, {}],
        "groundingSupports": [
            {"segment": {"endIndex": first}, "groundingChunkIndices": [0, 2, 9]},
            {"segment": late, "groundingChunkIndices": [0, 1]},
        ],
    }
    thought = {"text": "Hm.", "thought": True}
    parts = [thought, *({"text": text} for text in TEXTS)]
    if not is_stream:
        candidate = {"content": {"parts": parts}, "finishReason": "STOP"}
        return [{"candidates": [{**candidate, "groundingMetadata": metadata}]}]
    chunks: list[Body] = [{"candidates": [{"content": {"parts": [one]}}]} for one in parts]
    grounded = {"candidates": [{"groundingMetadata": metadata}]}
    return [*chunks, grounded, grounded, {"candidates": [{"finishReason": "STOP"}]}]


@each("client", ["chat", "responses"])
@cases("upstream, stated", ("messages", of_messages), ("native", of_native))
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_sources_of_a_text_are_its_annotations(
    is_stream: bool, upstream: Protocol, stated: Any, client: Protocol
) -> None:
    bodies = stated(is_stream=is_stream)
    if is_stream:
        made = data_of(written(client, events_from(upstream, sse(*bodies))))
        if client == "chat":
            deltas = [choice["delta"] for one in made[:-1] for choice in one["choices"]]
            found = [one for delta in deltas for one in delta.get("annotations", ())]
        else:
            added = [one for one in made if one["type"].endswith("annotation.added")]
            found = [one["annotation"] for one in added]
            (part,) = made[-1]["response"]["output"][-1]["content"]
            assert part["annotations"] == found
    else:
        call = TranslatedCall(TRANSLATIONS[client, upstream], ASKED[client])
        meter = CHAT_DIALECTS[upstream].new_meter()
        read = meter.take_body(json.dumps(bodies[0]).encode())
        whole = json.loads(call.translate_response(read, meter, id="a", created=1, model="m"))
        if client == "chat":
            found = whole["choices"][0]["message"]["annotations"]
        else:
            (part,) = whole["output"][-1]["content"]
            found = part["annotations"]
    if client == "chat":
        for one in found:
            Annotation.model_validate(one)
        found = [one["url_citation"] for one in found]
    else:
        ResponseOutputText.model_validate(part)
    places = [(one["url"], one["title"], one["start_index"], one["end_index"]) for one in found]
    assert places == EXPECTED


def test_a_source_stated_after_its_item_was_done_is_in_the_last_event() -> None:
    source = {"groundingChunks": [{"web": {"uri": "b", "title": "B"}}]}
    called = {"functionCall": {"name": "f", "args": {}}}
    parts = [{"text": "Hi"}, called]
    candidate = {"content": {"parts": parts}, "finishReason": "STOP", "groundingMetadata": source}
    made = data_of(written("responses", events_from("native", sse({"candidates": [candidate]}))))
    message, _ = made[-1]["response"]["output"]
    (cited,) = message["content"][0]["annotations"]
    place = {"start_index": 0, "end_index": 2}
    assert cited == {"type": "url_citation", "url": "b", "title": "B", **place}
