"""What a responses stream says, item by item, each thing once."""

from typing import Any

from channels.dialects.token_counts import Usage
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Citation,
    Ended,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.model import Media
from tests.support.rows import cases, each
from tests.unit.translation.responses.pieces import (
    CREATED,
    call,
    citation,
    completed,
    done,
    event,
    message,
    text,
)
from tests.unit.translation.translated import events_from, sse

PNG = "iVBORw0KGgoAAAAN"
STATED = UsageStated(Usage(10, 5, cached_tokens=4, reasoning_tokens=2))
ENDING = [STATED, Finished("stop"), Ended()]


def read(*events: Any) -> list[Event]:
    """What a whole stream says, but for its beginning."""
    found = events_from("responses", sse(CREATED, *events))
    assert found[0] == Began("resp_1", "gpt")
    return found[1:]


PART = {"type": "output_text", "text": "Hello", "annotations": [citation(0, 5)]}
REFUSED = {"type": "refusal", "refusal": "No."}


@cases(
    "events",
    [event("output_text.done", content_index=0, text="Hello"), done(**message(PART))],
    [event("content_part.done", content_index=0, part=PART), done(**message(PART))],
    [done(**message(PART))],
    [],
)
def test_text_without_deltas_is_read_once_with_its_sources(events: list[Any]) -> None:
    source = Citation("https://a.example", "A", 0, 5)
    assert read(*events, completed(message(PART))) == [TextDelta("Hello"), source, *ENDING]


def test_refusal_is_distinguished_from_text() -> None:
    delta = event("refusal.delta", content_index=0, delta="No.")
    assert read(delta, done(**message(REFUSED)), completed()) == [RefusalDelta("No."), *ENDING]
    assert read(completed(message(REFUSED))) == [RefusalDelta("No."), *ENDING]


def test_sources_count_the_characters_of_the_whole_answer() -> None:
    def cited(output: int, start: int, end: int) -> dict[str, Any]:
        return event(
            "output_text.annotation.added",
            output,
            content_index=0,
            annotation_index=0,
            annotation=citation(start, end),
        )

    found = read(
        text("Good news. "),
        cited(0, 0, 4),
        text("Bad news.", 3),
        cited(3, 4, 8),
        event("output_text.annotation.added", 3, annotation={"type": "file_citation"}),
        event("output_text.annotation.added", 3, annotation={"type": "url_citation", "url": "u"}),
        completed(),
    )
    assert [one for one in found if isinstance(one, Citation)] == [
        Citation("https://a.example", "A", 0, 4),
        Citation("https://a.example", "A", 15, 19),
        Citation("u", "", None, None),
    ]


@cases(
    "stated, data, kind",
    (None, PNG, "image/png"),
    ("png", "UklGRhIAAABXRUJQ", "image/webp"),
    ("webp", "AAAA", "image/webp"),
    ("tiff", "AAAA", "image/png"),
)
def test_image_comes_whole_and_once(stated: str | None, data: str, kind: str) -> None:
    item: dict[str, Any] = {
        "type": "image_generation_call",
        "result": data,
        "output_format": stated,
    }
    begun = event("output_item.added", item={**item, "result": None})
    assert read(begun, done(**item), done(**item), completed(item)) == [
        MediaDelta(Media("image", kind, data=data)),
        *ENDING,
    ]


def test_image_that_was_not_made_says_nothing() -> None:
    item: dict[str, Any] = {"type": "image_generation_call", "result": None}
    assert read(done(**item), completed(item)) == ENDING


def test_ids_serve_where_there_is_no_index() -> None:
    def bare(kind: str, **members: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", **members}

    found = read(
        bare("output_item.added", item=call(id="x", arguments="")),
        bare("output_item.added", item=call(id="y", call_id="call_b", arguments="")),
        bare("function_call_arguments.delta", item_id="y", delta="[2]"),
        bare("function_call_arguments.delta", item_id="x", delta="[1]"),
        bare("output_item.done", item=call(id="x", arguments="[1]")),
        completed(),
    )
    assert found[2:4] == [CallDelta(1, "[2]"), CallDelta(0, "[1]")]
    assert found[4] == STATED


THOUGHT = {"type": "reasoning_text", "text": "Hm."}
SHOWN: dict[str, list[Any]] = {
    "in a part that is done": [event("content_part.done", content_index=0, part=THOUGHT)],
    "in deltas and the part": [
        event("content_part.added", content_index=0, part={"type": "reasoning_text", "text": ""}),
        event("reasoning_text.delta", content_index=0, delta="H"),
        event("reasoning_text.delta", content_index=0, delta="m."),
        event("reasoning_text.done", content_index=0, text="Hm."),
        event("content_part.done", content_index=0, part=THOUGHT),
    ],
    "in the item alone": [],
    "in its summary": [
        event("reasoning_summary_part.added", summary_index=0, part={"type": "summary_text"}),
        event("reasoning_summary_text.delta", summary_index=0, delta="Hm."),
        event("reasoning_summary_text.done", summary_index=0, text="Hm."),
        event(
            "reasoning_summary_part.done",
            summary_index=0,
            part={"type": "summary_text", "text": "Hm."},
        ),
        event("content_part.done", content_index=0, part=THOUGHT),
    ],
}


@each("events", SHOWN.values())
def test_thinking_that_is_shown_is_no_text_and_read_once(events: list[Any]) -> None:
    item: dict[str, Any] = {"type": "reasoning", "summary": [], "content": [THOUGHT]}
    result = read(*events, done(**item), text("Four.", output=1), completed(item))
    assert "".join(one.text for one in result if isinstance(one, ThinkingDelta)) == "Hm."
    assert [one.text for one in result if isinstance(one, TextDelta)] == ["Four."]


def test_thoughts_of_an_item_are_paragraphs() -> None:
    parts = [{"type": "reasoning_text", "text": text} for text in ("One.", "Two.")]
    result = read(done(type="reasoning", summary=[], content=parts), completed())
    assert "".join(one.text for one in result if isinstance(one, ThinkingDelta)) == "One.\n\nTwo."


@cases(
    "events",
    [done(**call(arguments="null"))],
    [event("function_call_arguments.done", arguments="null"), done(**call(arguments="null"))],
    [
        event("output_item.added", item=call(arguments="")),
        event("function_call_arguments.delta", delta="nu"),
        event("function_call_arguments.delta", delta="ll"),
        done(**call(arguments="null")),
    ],
)
def test_arguments_that_are_null_are_none(events: list[Any]) -> None:
    result = read(*events, completed())
    assert [one for one in result if isinstance(one, CallBegan | CallDelta)] == [
        CallBegan(0, "call_a", "f")
    ]


ORPHAN = event("function_call_arguments.delta", delta="{}")


def test_arguments_of_an_item_that_is_no_call_are_no_call() -> None:
    assert read(ORPHAN, done(type="mcp_call", name="f"), completed()) == ENDING
    result = read(ORPHAN, done(1, **call(arguments="{}")), completed())
    calls = [CallBegan(0, "call_a", "f"), CallDelta(0, "{}")]
    assert result == [*calls, STATED, Finished("tool_calls"), Ended()]


def test_call_that_only_the_response_names_has_the_arguments_of_its_deltas() -> None:
    calls = [CallBegan(0, "call_a", "f"), CallDelta(0, "{}")]
    result = read(ORPHAN, completed(call(arguments="{}")))
    assert result == [*calls, STATED, Finished("tool_calls"), Ended()]


@cases(
    "last, reason",
    (completed(), "stop"),
    (completed(call()), "tool_calls"),
    (completed(status="incomplete"), "length"),
    (completed(status="incomplete", incomplete_details=None), "length"),
    (completed(status="incomplete", incomplete_details={"reason": "max_output_tokens"}), "length"),
    (completed(status="incomplete", incomplete_details={"reason": "content_filter"}), "refusal"),
)
def test_reason_of_the_end(last: dict[str, Any], reason: str) -> None:
    finished = [one for one in read(last) if isinstance(one, Finished)]
    assert [one.reason for one in finished] == [reason]


def test_failure_waits_for_what_belongs_to_it() -> None:
    error = {"type": "error", "error": {"code": "server_error", "message": "Out of order."}}
    failed = StreamFailed("server_error", "Out of order.")
    last = completed(status="failed", error={"code": "other", "message": "Later words."})
    assert read(text("Hi"), error, last) == [TextDelta("Hi"), STATED, failed]
    assert read(text("Hi"), error) == [TextDelta("Hi"), failed]  # and then it was cut
    assert read(text("Hi"), last)[-1] == StreamFailed("other", "Later words.")
    assert read(completed(status="failed"))[-1] == StreamFailed(
        None, "The upstream reported an error."
    )


@cases(
    "event, failed",
    (
        {"type": "error", "code": "rate_limit_exceeded", "message": "Slow down."},
        StreamFailed("rate_limit_exceeded", "Slow down."),
    ),
    ({"type": "error", "error": "Broken."}, StreamFailed(None, "Broken.")),
    (
        {"type": "error", "error": {"type": "t"}},
        StreamFailed("t", "The upstream reported an error."),
    ),
    ({"type": "error"}, StreamFailed(None, "The upstream reported an error.")),
)
def test_error_event_in_any_shape(event: dict[str, Any], failed: StreamFailed) -> None:
    assert read(event) == [failed]


def test_item_of_which_neither_index_nor_id_can_be_read_is_read_all_the_same() -> None:
    odd = call(id={}, arguments="{}")
    stated = {"type": "response.output_item.done", "output_index": [1], "item": odd}
    assert read(stated, completed())[:2] == [CallBegan(0, "call_a", "f"), CallDelta(0, "{}")]
